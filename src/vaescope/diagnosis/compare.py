"""`vaescope.compare`: several models or codes, and whether they learned the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Float

from vaescope.checks import without_infinities
from vaescope.codes import Representation
from vaescope.data import DataLike
from vaescope.diagnosis import comparison_cards as cards
from vaescope.diagnosis.cards import Card, by_severity
from vaescope.diagnosis.claims import Claim
from vaescope.diagnosis.compared import (
    MAX_COMPARED_ITEMS,
    distortions_comparable,
    groups_of,
    items_in_words,
    load_compared,
    losses_comparable,
    trained_elsewhere,
)
from vaescope.diagnosis.comparison_cards import Matchings
from vaescope.diagnosis.names import settings_of_runs
from vaescope.diagnosis.subject import Subject
from vaescope.encoding import layer_similarity
from vaescope.errors import ConfigurationError, unknown_name
from vaescope.notebook import NotebookResult
from vaescope.numerics import gaussian
from vaescope.numerics.variable_type_names import PASSIVE
from vaescope.objectives import strengths_in_use
from vaescope.regime import VariableTypes, collapse
from vaescope.runs import summary
from vaescope.similarity import SimilarityMap, all_pairs, match_latents
from vaescope.similarity.matching import MIN_MATCHED_ITEMS

MAX_LAYER_ITEMS = 1000  # layers have thousands of features, and similarities settle early (figure 7.1)
MAX_MATCHED_MODELS = 30  # every pair of them is matched
REPRESENTATIONS = ("mean", "sample", "variance")
NORMAL_QUANTILE = 1.96  # of the standard normal distribution, for a two-sided 95% interval
SUMMARY_COLUMNS = ("id", "model", "latents", "objective", "seed")
# Of runs whose losses are defined in the same way, and of those with the same likelihood and data.
LOSS: Final = "test_loss"
DISTORTION: Final = "test_reconstruction"


@dataclass(frozen=True)
class Comparison(NotebookResult):
    """The result of `compare`.

    Attributes:
        names: One name per model: for runs, the settings in which they differ.
        representation: Which representation was compared: 'mean', 'sample' or 'variance'.
        measure: The measure of similarity: 'cka' or 'procrustes'.
        table: One row per model.
        matrix: The similarity of each pair of models; NaN for models whose codes do not vary over the items, and for
            pairs that encode different items.
        cards: The findings, the worst first.
        layers: The similarity of the layers of the first two models; None unless requested.
        matchings: The matching of the latents in use of each pair of models, by their places; empty for spatial codes
            of different sizes, very few items and very many models.
        losses_comparable: Whether all models are runs with the same objective, strengths, likelihood and data, so that
            their losses measure the same.
    """

    names: tuple[str, ...]
    representation: str
    measure: str
    table: tuple[dict[str, object], ...]
    matrix: Float[np.ndarray, "models models"] = field(repr=False)
    cards: tuple[Card, ...]
    layers: SimilarityMap | None = None
    matchings: Matchings = field(default_factory=dict, repr=False)
    losses_comparable: bool = False

    def rows(self) -> list[dict[str, object]]:
        """One row per model."""
        return [dict(row) for row in self.table]

    def pairs(self) -> list[dict[str, Any]]:
        """One row per pair of models whose similarity is known, the most similar first."""
        rows = [
            {"one": self.names[i], "other": self.names[j], "similarity": float(self.matrix[i, j])}
            for i in range(len(self.names))
            for j in range(i)
            if not np.isnan(self.matrix[i, j])
        ]
        return sorted(rows, key=lambda row: -row["similarity"])

    def matches(self) -> list[dict[str, Any]]:
        """One row per pair of matched latents of each pair of models."""
        return [
            {"model": self.names[i], "latent": pair.one, "other_model": self.names[j], "other_latent": pair.other}
            | {"correlation": pair.correlation, "match": pair.matches}
            for (i, j), found in self.matchings.items()
            for pair in found.pairs
        ]

    def summary(self) -> str:
        """Whether the models learned the same, in one sentence with the numbers behind it."""
        return self._headline()[0]

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What the summary says, as data."""
        return self._headline()[1]

    def _headline(self) -> tuple[str, tuple[Claim, ...]]:
        similarity, _ = self._similarity()
        if not similarity:
            return "The models cannot be compared: fewer than two have codes of the same items that vary", ()
        counts = dict(zip(self.names, self._used_counts(), strict=False))
        usage = tuple(Claim("used", number=count, models=(name,)) for name, count in counts.items())
        informative = [(name, count) for name, count in counts.items() if count]
        if self.table and not informative:
            return "No model uses a latent: the codes carry no information, so there is nothing to compare", usage
        if self.table and len(informative) == 1:
            (name, count), *_ = informative
            empty = [other for other in counts if other != name]
            rest = empty[0] if len(empty) == 1 else "the other models"
            return f"No: only {name} uses latents ({count}); the codes of {rest} carry no information", usage
        others = np.where(np.eye(len(self.names), dtype=bool), np.nan, self.matrix)
        comparable = np.asarray((~np.isnan(others)).any(1))
        places = np.flatnonzero(comparable)
        matched_pairs = {(i, j): found for (i, j), found in self.matchings.items() if comparable[i] and comparable[j]}
        matchings = list(matched_pairs.values())
        known = [found.share for found in matchings if found.most]
        mean = float(np.nanmean(self.matrix[np.triu_indices(len(self.names), 1)]))
        verdict = cards.answer(mean, float(np.mean(known)) if known else None)
        models = "two" if len(places) == 2 else str(len(places))
        if len(self.names) == 2:
            who = f"{self.names[0]} and {self.names[1]}"
        elif len(places) == len(self.names):
            who = f"the {models} models"
        else:
            who = f"the {models} of {len(self.names)} models that can be compared"
        matched, used = cards.matched_words(matchings), self._used()
        joined = f", {'but' if verdict.startswith('Same') else 'and'} {matched}" if matched else ""
        claims = (
            Claim("similarity", number=mean, models=tuple(self.names[place] for place in places)),
            *cards.matched_claims(self.names, matched_pairs),
            *(usage if used else ()),
        )
        return f"{verdict}: {who} encode {similarity}{joined}{used and f'; {used}'}", claims

    def extremes(self) -> str:
        """The most and the least similar pair; the headline for fewer than two pairs."""
        return self._similarity()[1] or self.summary()

    def _similarity(self) -> tuple[str, str]:
        return cards.similarity_words(self.matrix, self.names, self.measure, self.representation)

    def _used_counts(self) -> list[int]:
        """The number of latents that each model uses."""
        return [int(str(row["latents"])) - int(str(row[PASSIVE])) for row in self.table]

    def _used(self) -> str:
        """How many latents the models use, if they differ in it."""
        used = self._used_counts()
        if len(set(used)) < 2:
            return ""
        if len(used) == 2:
            return f"{self.names[0]} uses {used[0]} latents, {self.names[1]} uses {used[1]}"
        return f"they use {min(used)} to {max(used)} latents"

    def plain(self) -> dict[str, object]:
        """The comparison as a JSON-compatible dictionary."""
        return {
            "verdict": self.summary(),
            "names": list(self.names),
            "measure": self.measure,
            "representation": self.representation,
            "models": without_infinities(self.rows()),
            "matrix": without_infinities(self.matrix.tolist()),
            "matches": self.matches(),
            "claims": [without_infinities(asdict(claim)) for claim in self.claims],
            "cards": [card.plain() for card in self.cards],
            "layers": None if self.layers is None else without_infinities(self.layers.table()),
        }


def compare(
    subjects: Sequence[object] | Mapping[str, object],
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
        subjects: At least two models, each in any form that `diagnose` accepts, or a mapping from names to them. Codes
            must be of the same items. Runs on items of different shapes are each compared on their own data, as far as
            that is possible.
        data: The items to encode; default: the data that the first run was trained on.
        representation: Which representation to compare: 'mean', 'sample' or 'variance'.
        measure: The measure of similarity: 'cka' or 'procrustes'.
        items: The maximum number of items to encode.
        layers: Whether to compare the layers of the first two subjects too, which must be runs or models.
        seed: The random seed for sampling and item selection.
        runs: The folder that contains the runs; default: 'runs'.

    Returns:
        One row per model, the similarity of each pair, the latents that match, and the cards.
    """
    if representation not in REPRESENTATIONS:
        raise unknown_name("representation", representation, REPRESENTATIONS)
    loaded = load_compared(subjects, data, items=items, seed=seed, runs=runs)
    return compare_subjects(loaded, representation=representation, measure=measure, layers=layers)


def compare_subjects(
    loaded: Sequence[Subject], *, representation: str = "mean", measure: str = "cka", layers: bool = False
) -> Comparison:
    """Compare subjects that are already encoded; the arguments are those of `compare`."""
    names, codes = tuple(one.name for one in loaded), [one.codes for one in loaded]
    types = [collapse(one).types for one in codes]
    tables = [one.by_item(representation) for one in codes]
    constant = [not bool((one != one[0]).any()) for one in tables]
    groups = groups_of(loaded)
    matrix = np.full((len(loaded), len(loaded)), np.nan)
    for members in groups:
        varying = [place for place in members if not constant[place]]
        if varying:
            matrix[np.ix_(varying, varying)] = all_pairs([tables[place] for place in varying], measure=measure)
    matchings, reason = _matchings(codes, types, groups)
    runs = [one.run for one in loaded]
    comparable = losses_comparable(runs)
    # UDR needs all models to encode the same items.
    ranking = None if reason or len(groups) > 1 else cards.udr_of(names, codes)
    found = [
        cards.items_card(names, [items_in_words(one) for one in loaded], trained_elsewhere(loaded)),
        cards.settings_card(names, settings_of_runs(runs), comparable),
        cards.usage_card(names, types),
        cards.matching_card(names, matchings, ranking, reason),
        cards.theory_card(names, codes, types),
        cards.constant_card([name for name, one in zip(names, constant, strict=True) if one])
        if any(constant)
        else None,
    ]
    table = _rows(loaded, types, comparable)
    findings = by_severity(card for card in found if card is not None)
    compared = _layers(loaded, groups) if layers else None
    return Comparison(names, representation, measure, tuple(table), matrix, findings, compared, matchings, comparable)


def _matchings(
    codes: Sequence[Representation], types: Sequence[VariableTypes], groups: Sequence[Sequence[int]]
) -> tuple[Matchings, str]:
    """The matching of the latents in use for each pair of models, and why there is none."""
    if len({one.positions for one in codes}) > 1:
        return {}, "Latents are matched between codes with the same positions only."
    if len(codes) > MAX_MATCHED_MODELS:
        return {}, f"Latents are matched for at most {MAX_MATCHED_MODELS} models."
    if min(len(one) for one in codes) < MIN_MATCHED_ITEMS:
        return {}, f"Matching latents needs at least {MIN_MATCHED_ITEMS} items."
    used = [cards.in_use(one) for one in types]
    pairs = sorted(pair for members in groups for pair in combinations(members, 2))
    if not pairs:
        return {}, "No two models encode the same items."
    return {(i, j): match_latents(codes[i], codes[j], used[i], used[j]) for i, j in pairs}, ""


def _layers(loaded: Sequence[Subject], groups: Sequence[Sequence[int]]) -> SimilarityMap:
    first, second = loaded[:2]
    if first.items is None or first.model is None or second.model is None or not {0, 1} <= set(groups[0]):
        raise ConfigurationError(
            "layers=True needs the first two subjects to be runs, or models with data, that encode the same items."
        )
    return layer_similarity(first.model, second.model, first.items, items=MAX_LAYER_ITEMS)


def _rows(loaded: Sequence[Subject], types: Sequence[VariableTypes], comparable: bool) -> list[dict[str, object]]:
    """One row per model: settings, types, rate, and the terms of the loss that all runs define in the same way."""
    runs = [one.run for one in loaded]
    results = [name for name, shown in ((LOSS, comparable), (DISTORTION, distortions_comparable(runs))) if shown]
    return [_row(one, types, results) for one, types in zip(loaded, types, strict=True)]


def _row(one: Subject, types: VariableTypes, results: Sequence[str]) -> dict[str, object]:
    """The settings of a run, the types, and the mean rate over items with its 95% interval."""
    row: dict[str, object] = {"name": one.name}
    if one.run is not None:
        # A run whose history is damaged can still be compared.
        known = {"id": one.run.id} if not one.history else summary(one.run)
        row |= {column: known[column] for column in SUMMARY_COLUMNS if column in known}
        row |= strengths_in_use(one.run.configuration.member.objective)
        row |= {column: known[column] for column in results if column in known}
    units = one.codes.in_units_of_prior()
    rates = gaussian.kl_to_standard(units.mean.double(), units.variance.double().log()).sum(1)
    margin = NORMAL_QUANTILE * rates.std(correction=0) / len(rates) ** 0.5
    interval = {"rate_low": float(rates.mean() - margin), "rate_high": float(rates.mean() + margin)}
    rate = float(types.statistics.rate.sum())
    return {**row, "latents": one.codes.latents, **types.counts, "rate": rate, **interval}
