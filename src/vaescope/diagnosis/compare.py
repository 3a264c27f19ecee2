"""Compare runs or codes: what each is, and how alike their representations are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from vaescope.checks import without_infinities
from vaescope.codes import Representation
from vaescope.data import Dataset, open_dataset
from vaescope.diagnosis.cards import GOOD, NOT_APPLICABLE, NOTE, WARNING, Card, by_severity
from vaescope.diagnosis.subject import history_of
from vaescope.encoding import adapt, encode, layer_similarity
from vaescope.errors import ConfigurationError, DataError, unknown_name
from vaescope.metrics import udr
from vaescope.notebook import NotebookResult
from vaescope.numerics import gaussian
from vaescope.objectives.strengths import telling
from vaescope.regime import VariableTypes, collapse
from vaescope.runs import Run, summary
from vaescope.runs.resolve import data_of, run_of, sample_items, subject_name
from vaescope.similarity import SimilarityMap, all_pairs, conservation

ITEMS = 5000
LAYER_ITEMS = 1000  # layers have thousands of features, and similarities settle early (figure 7.1)
REPRESENTATIONS = ("mean", "sample", "variance")
NORMAL = 1.96  # standard errors to both sides of a mean that hold 95%
TOLD = ("model", "latents", "objective", "seed", "test_loss")


@dataclass(frozen=True)
class Comparison(NotebookResult):
    """One row for each subject, and how alike their codes are; the layers of the first two where asked for."""

    names: tuple[str, ...]
    representation: str
    measure: str
    table: tuple[dict[str, Any], ...]
    matrix: Float[np.ndarray, "subjects subjects"] = field(repr=False)
    cards: tuple[Card, ...]
    layers: SimilarityMap | None = None

    def rows(self) -> list[dict[str, Any]]:
        """One row for each subject."""
        return [dict(row) for row in self.table]

    def pairs(self) -> list[dict[str, Any]]:
        """One row for each pair, the most alike first."""
        rows = [
            {"one": self.names[i], "other": self.names[j], "similarity": float(self.matrix[i, j])}
            for i in range(len(self.names))
            for j in range(i)
        ]
        return sorted(rows, key=lambda row: -row["similarity"])

    def summary(self) -> str:
        """How alike the codes are, and which are most and least so."""
        pairs = self.pairs()
        mean = float(np.mean([row["similarity"] for row in pairs]))
        text = f"The {self.representation} codes of {len(self.names)} models are alike by {mean:.3f} ({self.measure})"
        if len(pairs) == 1:
            return text
        first, last = pairs[0], pairs[-1]
        return (
            f"{text} on average: from {last['similarity']:.3f} ({last['one']} and {last['other']}) to "
            f"{first['similarity']:.3f} ({first['one']} and {first['other']})"
        )

    def plain(self) -> dict[str, Any]:
        """All of it as tables for machines."""
        return without_infinities(
            {
                "verdict": self.summary(),
                "measure": self.measure,
                "representation": self.representation,
                "models": self.rows(),
                "matrix": self.matrix.tolist(),
                "cards": [card.plain() for card in self.cards],
                "layers": None if self.layers is None else self.layers.table(),
            }
        )


def compare(
    subjects: Sequence[Any],
    data: Any = None,
    *,
    representation: str = "mean",
    measure: str = "cka",
    items: int = ITEMS,
    layers: bool = False,
    seed: int = 0,
    runs: str | Path | None = None,
) -> Comparison:
    """How alike runs, or codes of the same items, are (Bonheme, chapter 7).

    A subject is a `Run` (or its folder or id), a `Representation`, a pair (mean, variance), or a file of codes. Runs
    encode the same `items` of `data`, or of what the first was trained on. `layers` compares every layer of the first
    two, which must be runs.
    """
    if isinstance(subjects, str | Path) or len(subjects) < 2:
        raise ConfigurationError("there must be at least two models to compare; name the runs, or files of codes.")
    if representation not in REPRESENTATIONS:
        raise unknown_name("representation", representation, REPRESENTATIONS)
    found = [run_of(subject, runs) for subject in subjects]
    some = _items(found, data, items, seed)
    codes = [_codes(subject, run, some, seed) for subject, run in zip(subjects, found, strict=True)]
    names = _distinct([subject_name(s) if run is None else run.id for s, run in zip(subjects, found, strict=True)])
    _check_items(names, codes)
    matrix = all_pairs([getattr(one, representation) for one in codes], measure=measure)
    types = [collapse(one).types for one in codes]
    table = [_row(*told) for told in zip(names, found, codes, types, strict=True)]
    compared = _layers(found, some) if layers else None
    cards = by_severity([_counts_card(names, types), _theory_card(names, codes, types), _udr_card(names, codes)])
    return Comparison(names, representation, measure, tuple(table), np.asarray(matrix), cards, compared)


def _items(runs: Sequence[Run | None], data: Any, items: int, seed: int) -> Dataset | None:
    """The items that all runs encode; None where there is no run."""
    known = [run for run in runs if run is not None]
    if not known:
        return None if data is None else sample_items(open_dataset(data), items, seed)
    opened = data_of(known[0], data)
    for run in known[1:]:
        if tuple(run.configuration.data["shape"]) != tuple(opened.shape):
            raise DataError(
                f"runs that are compared must take items of one shape, {known[0].id} takes {tuple(opened.shape)} and "
                f"{run.id} {tuple(run.configuration.data['shape'])}. Compare runs on the same data."
            )
    return sample_items(opened, items, seed)


def _codes(subject: Any, run: Run | None, some: Dataset | None, seed: int) -> Representation:
    if run is not None and some is not None:
        return encode(run.model, some, seed=seed)
    return adapt(subject, some if callable(subject) else None, seed=seed)


def _check_items(names: Sequence[str], codes: Sequence[Representation]) -> None:
    for name, one in zip(names[1:], codes[1:], strict=True):
        if len(one) != len(codes[0]):
            raise DataError(
                f"codes that are compared must be of the same items, {names[0]} has {len(codes[0])} and {name} "
                f"{len(one)}. Encode the same items with every model."
            )


def _distinct(names: list[str]) -> tuple[str, ...]:
    """Names of their own: a number after those that come more than once."""
    counts = {name: names.count(name) for name in names}
    seen: dict[str, int] = {}
    distinct = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(name if counts[name] == 1 else f"{name} ({seen[name]})")
    return tuple(distinct)


def _row(name: str, run: Run | None, codes: Representation, types: VariableTypes) -> dict[str, Any]:
    # A run whose history is lost is still a model to compare.
    told = {} if run is None or history_of(run)[1] else summary(run)
    strengths = {} if run is None else telling(run.configuration.member.objective)
    row: dict[str, Any] = {"name": name, **{key: told[key] for key in TOLD if key in told}, **strengths}
    row["latents"] = codes.latents
    low, high = _rate_interval(codes)
    return {**row, **types.counts, "rate": float(types.statistics.rate.sum()), "rate_low": low, "rate_high": high}


def _rate_interval(codes: Representation) -> tuple[float, float]:
    """The 95% interval of the mean rate, by how much items differ; a variance of 0 has none."""
    units = codes.in_units_of_prior()
    rates = gaussian.kl_to_standard(units.mean.double(), units.variance.double().log()).sum(1)
    reach = NORMAL * rates.std(correction=0) / len(rates) ** 0.5
    return float(rates.mean() - reach), float(rates.mean() + reach)


def _layers(runs: Sequence[Run | None], some: Dataset | None) -> SimilarityMap:
    one, other = runs[:2]
    if one is None or other is None:
        raise ConfigurationError("layers are those of models: the first two that are compared must be runs.")
    return layer_similarity(one.model, other.model, some, items=LAYER_ITEMS)


def _counts_card(names: Sequence[str], types: Sequence[VariableTypes]) -> Card:
    """Whether the models use as many latents, which limits how alike their codes can be."""
    used = [len(one.types) - len(one.passive) for one in types]
    rows = [{"name": name, "used": count, **one.counts} for name, count, one in zip(names, used, types, strict=True)]
    if len(set(used)) == 1:
        return Card("Latents in use", NOTE, f"All use {used[0]} latents.", "", rows)
    least, most = min(used), max(used)
    meaning = f"They use {least} to {most} latents: codes of fewer cannot hold what the others hold in more."
    return Card("Latents in use", NOTE, meaning, "Compare models with as many latents in use.", rows)


def _theory_card(names: Sequence[str], codes: Sequence[Representation], types: Sequence[VariableTypes]) -> Card:
    """Where variances are alike enough, the numbers of active and passive latents must be equal: are they?"""
    title, rows = "Equal numbers of latents", []
    for i, j in combinations(range(len(codes)), 2):
        found = conservation(codes[i], codes[j], types_a=types[i], types_b=types[j])
        told = {"alignment": found.alignment, "bound": found.bound, "follows": found.predicted, "holds": found.holds}
        rows.append({"one": names[i], "other": names[j], **told})
    bound = [row for row in rows if row["follows"]]
    if not bound:
        meaning = "No two models have variances so alike that equal numbers of active and passive latents would follow."
        return Card(title, NOT_APPLICABLE, meaning, "", rows)
    wrong = [row for row in bound if not row["holds"]]
    pairs = "pair has" if len(bound) == 1 else "pairs have"
    meaning = (
        f"{len(bound)} {pairs} variances so alike that equal numbers of active and passive latents follow (Bonheme, "
        f"theorem 7.4.2); they are there in {len(bound) - len(wrong)} of {len(bound)}."
    )
    if wrong:
        return Card(title, WARNING, meaning, "The others are not polarised to the end: train longer.", rows)
    return Card(title, GOOD, meaning, "", rows)


def _udr_card(names: Sequence[str], codes: Sequence[Representation]) -> Card:
    """Whether the models find the same latents, one for one, which needs no factors."""
    title = "Same latents"
    if any(bool((one.variance == 0).any()) for one in codes):
        return Card(title, NOT_APPLICABLE, "Codes without a variance have no divergence to choose latents by.", "")
    found = udr(codes, names=names)
    meaning = f"Latents of one model resemble single latents of another by {found.score:.3f} (UDR, 1 is one for one)."
    return Card(title, NOTE, meaning, "", [{"name": name, "udr": found.parts[name]} for name in names])
