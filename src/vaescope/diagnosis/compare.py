"""`vaescope.compare`: several models or codes, and how similar their representations are."""

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
from vaescope.data import DataLike, Dataset, open_dataset
from vaescope.diagnosis.cards import GOOD, NOT_APPLICABLE, NOTE, WARNING, Card, by_severity
from vaescope.diagnosis.subject import history_of
from vaescope.encoding import adapt, encode, layer_similarity
from vaescope.errors import ConfigurationError, DataError, unknown_name
from vaescope.metrics import udr
from vaescope.metrics.mutual_information import listed
from vaescope.notebook import NotebookResult
from vaescope.numerics import gaussian
from vaescope.objectives import strengths_in_use
from vaescope.regime import VariableTypes, collapse
from vaescope.runs import Run, summary
from vaescope.runs.store import data_of, run_of, sample_items, subject_name
from vaescope.similarity import SimilarityMap, all_pairs, conservation

MAX_COMPARED_ITEMS = 5000
MAX_LAYER_ITEMS = 1000  # layers have thousands of features, and similarities settle early (figure 7.1)
REPRESENTATIONS = ("mean", "sample", "variance")
NORMAL_QUANTILE = 1.96  # of the standard normal distribution, for a two-sided 95% interval
SUMMARY_COLUMNS = ("model", "latents", "objective", "seed", "test_loss")
# Similarity or score from which on a description holds, the highest first.
SHARED_INFORMATION = {0.85: "nearly the same", 0.5: "partly the same", 0.0: "largely different"}
MATCHING_LATENTS = {0.8: "match", 0.4: "partly match", 0.0: "do not match"}


@dataclass(frozen=True)
class Comparison(NotebookResult):
    """The result of `compare`.

    Attributes:
        names: One name per model.
        representation: Which representation was compared: 'mean', 'sample' or 'variance'.
        measure: The measure of similarity: 'cka' or 'procrustes'.
        table: One row per model.
        matrix: The similarity of each pair of models; NaN for models whose codes do not vary over the items.
        cards: The findings, the worst first.
        layers: The similarity of the layers of the first two models; None unless asked for.
    """

    names: tuple[str, ...]
    representation: str
    measure: str
    table: tuple[dict[str, object], ...]
    matrix: Float[np.ndarray, "models models"] = field(repr=False)
    cards: tuple[Card, ...]
    layers: SimilarityMap | None = None

    def rows(self) -> list[dict[str, object]]:
        """One row per model."""
        return [dict(row) for row in self.table]

    def pairs(self) -> list[dict[str, Any]]:
        """One row per pair of models whose codes vary, the most similar first."""
        rows = [
            {"one": self.names[i], "other": self.names[j], "similarity": float(self.matrix[i, j])}
            for i in range(len(self.names))
            for j in range(i)
            if not np.isnan(self.matrix[i, j])
        ]
        return sorted(rows, key=lambda row: -row["similarity"])

    def summary(self) -> str:
        """How similar the models are, and which pairs are the most and the least similar."""
        pairs = self.pairs()
        if not pairs:
            return "Fewer than two models have codes that vary over the items, so there is no similarity"
        mean = float(np.mean([row["similarity"] for row in pairs]))
        measure = self.measure.upper() if self.measure == "cka" else self.measure.capitalize()
        of = "" if self.representation == "mean" else f" of the {self.representation}s"
        varying = int((~np.isnan(self.matrix.diagonal())).sum())
        count = "two" if varying == 2 else str(varying)
        who = "models" if varying == len(self.names) else f"of {len(self.names)} models whose codes vary"
        text = f"The {count} {who} encode {_describe(mean, SHARED_INFORMATION)} information ({measure}{of} {mean:.2f}"
        if len(pairs) == 1:
            return f"{text})"
        low, high = (f"{row['similarity']:.2f} for {row['one']} and {row['other']}" for row in (pairs[-1], pairs[0]))
        return f"{text} on average, from {low} to {high})"

    def plain(self) -> dict[str, object]:
        """The comparison as a JSON-compatible dictionary."""
        return {
            "verdict": self.summary(),
            "measure": self.measure,
            "representation": self.representation,
            "models": without_infinities(self.rows()),
            "matrix": without_infinities(self.matrix.tolist()),
            "cards": [card.plain() for card in self.cards],
            "layers": None if self.layers is None else without_infinities(self.layers.table()),
        }


def compare(
    subjects: Sequence[object],
    data: DataLike | None = None,
    *,
    representation: str = "mean",
    measure: str = "cka",
    items: int = MAX_COMPARED_ITEMS,
    layers: bool = False,
    seed: int = 0,
    runs: str | Path | None = None,
) -> Comparison:
    """Compare what several models encode (Bonheme, chapter 7).

    Args:
        subjects: At least two models, each in any form that `diagnose` accepts. Codes must be of the same items.
        data: The items to encode; default: the data that the first run was trained on.
        representation: Which representation to compare: 'mean', 'sample' or 'variance'.
        measure: The measure of similarity: 'cka' or 'procrustes'.
        items: The maximum number of items to encode.
        layers: Whether to compare the layers of the first two subjects too, which must be runs.
        seed: The random seed for sampling and item selection.
        runs: The folder that contains the runs; default: 'runs'.

    Returns:
        One row per model, the similarity of each pair, and the cards.
    """
    if isinstance(subjects, str | Path) or len(subjects) < 2:
        raise ConfigurationError("compare needs at least two models. Pass several runs or files of codes.")
    if representation not in REPRESENTATIONS:
        raise unknown_name("representation", representation, REPRESENTATIONS)
    found_runs = [run_of(subject, runs) for subject in subjects]
    dataset = _shared_items(found_runs, data, items, seed)
    codes = [_encode(subject, run, dataset, seed) for subject, run in zip(subjects, found_runs, strict=True)]
    names = _unique([subject_name(s) if run is None else run.id for s, run in zip(subjects, found_runs, strict=True)])
    for name, one in zip(names, codes, strict=True):
        if len(one) != len(codes[0]):
            raise DataError(
                f"compared codes must be of the same items, but {names[0]} has {len(codes[0])} items and {name} "
                f"{len(one)}. Encode the same items with every model."
            )
    tables = [getattr(one, representation) for one in codes]
    varying = [place for place, one in enumerate(tables) if bool((one != one[0]).any())]
    matrix = np.full((len(codes), len(codes)), np.nan)
    if varying:
        matrix[np.ix_(varying, varying)] = all_pairs([tables[place] for place in varying], measure=measure)
    types = [collapse(one).types for one in codes]
    table = [_row(*parts) for parts in zip(names, found_runs, codes, types, strict=True)]
    compared = None
    if layers:
        first, second = found_runs[:2]
        if first is None or second is None:
            raise ConfigurationError("layers=True needs models, so the first two subjects must be runs.")
        compared = layer_similarity(first.model, second.model, dataset, items=MAX_LAYER_ITEMS)
    cards = [_usage_card(names, types), _theory_card(names, codes, types), _udr_card(names, codes)]
    if len(varying) < len(names):
        cards.append(_constant_card([name for place, name in enumerate(names) if place not in varying]))
    return Comparison(names, representation, measure, tuple(table), matrix, by_severity(cards), compared)


def _shared_items(runs: Sequence[Run | None], data: DataLike | None, items: int, seed: int) -> Dataset | None:
    """The items that all runs encode; None if there are neither runs nor data."""
    known = [run for run in runs if run is not None]
    if not known:
        return None if data is None else sample_items(open_dataset(data), items, seed)
    opened = data_of(known[0], data)
    for run in known[1:]:
        if tuple(run.configuration.data["shape"]) != tuple(opened.shape):
            raise DataError(
                f"compared runs must take items of the same shape, but {known[0].id} takes {tuple(opened.shape)} and "
                f"{run.id} {tuple(run.configuration.data['shape'])}. Compare runs on the same data."
            )
    return sample_items(opened, items, seed)


def _encode(subject: object, run: Run | None, dataset: Dataset | None, seed: int) -> Representation:
    if run is not None and dataset is not None:
        return encode(run.model, dataset, seed=seed)
    return adapt(subject, dataset if callable(subject) else None, seed=seed)


def _unique(names: list[str]) -> tuple[str, ...]:
    """Number the names that occur more than once."""
    return tuple(
        name if names.count(name) == 1 else f"{name} ({names[: place + 1].count(name)})"
        for place, name in enumerate(names)
    )


def _row(name: str, run: Run | None, codes: Representation, types: VariableTypes) -> dict[str, object]:
    """The settings of a run, the types, and the mean rate over items with its 95% interval."""
    row: dict[str, object] = {"name": name}
    if run is not None:
        # A run whose history is damaged can still be compared.
        known = {} if history_of(run)[1] else summary(run)
        row |= {column: known[column] for column in SUMMARY_COLUMNS if column in known}
        row |= strengths_in_use(run.configuration.member.objective)
    units = codes.in_units_of_prior()
    rates = gaussian.kl_to_standard(units.mean.double(), units.variance.double().log()).sum(1)
    margin = NORMAL_QUANTILE * rates.std(correction=0) / len(rates) ** 0.5
    interval = {"rate_low": float(rates.mean() - margin), "rate_high": float(rates.mean() + margin)}
    rate = float(types.statistics.rate.sum())
    return {**row, "latents": codes.latents, **types.counts, "rate": rate, **interval}


def _describe(value: float, descriptions: dict[float, str]) -> str:
    """The first description whose bound the value reaches, or the last one."""
    return next((text for bound, text in descriptions.items() if value >= bound), list(descriptions.values())[-1])


def _usage_card(names: Sequence[str], types: Sequence[VariableTypes]) -> Card:
    """Whether the models use the same number of latents, which limits how similar their codes can be."""
    used = [len(one.types) - len(one.passive) for one in types]
    rows = [{"name": name, "used": count, **one.counts} for name, count, one in zip(names, used, types, strict=True)]
    meaning, advice = f"All models use {used[0]} latents.", ""
    if len(set(used)) > 1:
        meaning = f"The models use {min(used)} to {max(used)} latents; a model that uses fewer encodes less."
        advice = "Compare models that use the same number of latents."
    return Card("Latents in use", NOTE, meaning, advice, rows)


def _constant_card(names: Sequence[str]) -> Card:
    """Which models are left out of the similarity, because their codes are equal for all items."""
    meaning = f"The codes of {listed(names)} are equal for all items, so that they are similar to no others."
    return Card("Constant codes", WARNING, meaning, "Diagnose them: they carry no information.")


def _theory_card(names: Sequence[str], codes: Sequence[Representation], types: Sequence[VariableTypes]) -> Card:
    """Whether models with similar variances have equal numbers of active and passive latents, as they must."""
    title, rows = "Equal numbers of latents", []
    # The theorems say nothing of deterministic codes.
    random = [place for place, one in enumerate(codes) if bool((one.variance > 0).any(1).all())]
    for i, j in combinations(random, 2):
        found = conservation(codes[i], codes[j], types_a=types[i], types_b=types[j])
        row = {"alignment": found.alignment, "bound": found.bound, "follows": found.predicted, "holds": found.holds}
        rows.append({"one": names[i], "other": names[j], **row})
    similar = [row for row in rows if row["follows"]]
    if not similar:
        meaning = "No two models have variances so similar that their numbers of active and passive latents must agree."
        return Card(title, NOT_APPLICABLE, meaning, "", rows)
    agreeing = sum(bool(row["holds"]) for row in similar)
    pairs = "1 pair has" if len(similar) == 1 else f"{len(similar)} pairs have"
    meaning = (
        f"{pairs} variances so similar that the numbers of active and passive latents must agree (Bonheme, theorem "
        f"7.4.2); they agree for {agreeing} of {len(similar)}."
    )
    if agreeing < len(similar):
        return Card(title, WARNING, meaning, "The other pairs are not fully polarised: train longer.", rows)
    return Card(title, GOOD, meaning, "", rows)


def _udr_card(names: Sequence[str], codes: Sequence[Representation]) -> Card:
    """Whether the models learned the same individual latents; factors are not needed."""
    title = "Same latents"
    if any(bool((one.variance == 0).any()) for one in codes):
        return Card(title, NOT_APPLICABLE, "UDR selects latents by their KL divergence, which needs variances above 0.")
    found = udr(codes, names=names)
    matching = _describe(found.score, MATCHING_LATENTS)
    meaning = f"Individual latents {matching} across models (UDR {found.score:.2f}; 1 = one-to-one)."
    return Card(title, NOTE, meaning, "", [{"name": name, "udr": found.parts[name]} for name in names])
