"""`vaescope.diagnose`: a verdict, cards sorted by severity, and one row per latent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vaescope.checks import without_infinities
from vaescope.data import DataLike
from vaescope.diagnosis import cards
from vaescope.diagnosis.cards import NOT_APPLICABLE, Card, by_severity
from vaescope.diagnosis.course import course_of
from vaescope.diagnosis.factor_cards import downstream_card, importance_card, meaning_card, scores_card
from vaescope.diagnosis.facts import Facts
from vaescope.diagnosis.headline import Headline, groups_headline, headline
from vaescope.diagnosis.reconstruction import NotReconstructed, Reconstruction, reconstruction_of
from vaescope.diagnosis.regime_cards import (
    collapse_card,
    course_card,
    formed_card,
    mean_and_sampled_card,
    mixed_card,
    rate_card,
    reconstruction_card,
    types_card,
)
from vaescope.diagnosis.subject import Subject, load_subjects
from vaescope.encoding import WrappedModel, decoder_of
from vaescope.errors import DataError, unknown_name
from vaescope.metrics import Meaning, Score, meaning, measure_all
from vaescope.metrics.inputs import count_varying
from vaescope.notebook import render_view
from vaescope.numerics.polarised import ALPHA
from vaescope.numerics.variable_type_names import ACTIVE, PASSIVE, VARIABLE_TYPES
from vaescope.objectives import in_words
from vaescope.priors import PRIORS
from vaescope.regime import (
    Collapse,
    Downstream,
    VariableTypes,
    collapse,
    delta_kl,
    downstream,
    mean_and_sampled,
    mutual_information_bound,
    rate_by_position,
)
from vaescope.runs.store import MAX_ITEMS, subject_name

DEFAULT_EXCLUDED, NONE_EXCLUDED = PASSIVE, "none"


@dataclass(frozen=True)
class Diagnosis:
    """The result of `diagnose`.

    Attributes:
        name: The run's id, the file name, or the function's name.
        types: The type of each latent.
        cards: The findings, the worst first.
        meaning: What each latent encodes; None without factors.
        headline: What matters most: a state, a sentence and advice.
        scores: The requested metrics.
        reconstruction: How well items are reconstructed; None without a decoder.
        has_objective: Whether the objective of the training is known, so that causes can be named.
    """

    name: str
    types: VariableTypes
    cards: tuple[Card, ...]
    headline: Headline
    meaning: Meaning | None = None
    scores: tuple[Score, ...] = ()
    reconstruction: Reconstruction | None = None
    has_objective: bool = False

    def rows(self) -> list[dict[str, Any]]:
        """One row per latent; with factors, the column `encodes` names them."""
        rows = self.types.rows()
        if self.meaning is None:
            return rows
        return [{**row, "encodes": text} for row, text in zip(rows, self.meaning.sentences(), strict=True)]

    def summary(self) -> str:
        """The headline: what matters most, and what to do about it."""
        return str(self.headline)

    def _repr_html_(self) -> str | None:
        return render_view(self)

    def plain(self) -> dict[str, object]:
        """The diagnosis as a JSON-compatible dictionary."""
        return {
            "name": self.name,
            "verdict": self.summary(),
            "headline": self.headline.plain(),
            "well_determined": self.types.well_determined,
            "latents": without_infinities(self.rows()),
            "cards": [card.plain() for card in self.cards],
            "metrics": without_infinities([score.plain() for score in self.scores]),
        }


@dataclass(frozen=True)
class GroupedDiagnosis:
    """The result of `diagnose` for latents in several groups, such as the levels of a hierarchical VAE.

    Attributes:
        name: The name of the model or function, or 'codes'.
        groups: The diagnosis of each group by its name.
        card: How latents and rate are distributed over the groups.
    """

    name: str
    groups: Mapping[str, Diagnosis]
    card: Card

    @classmethod
    def of(cls, name: str, groups: Mapping[str, Diagnosis], positions: Mapping[str, int]) -> GroupedDiagnosis:
        """The diagnoses of all groups together; `positions` is the number of positions of a code of each group."""
        types = {group: found.types for group, found in groups.items()}
        rates = {group: float(found.statistics.rate.sum()) * positions[group] for group, found in types.items()}
        return cls(name, groups, cards.groups_card(rates, types))

    @property
    def types(self) -> dict[str, VariableTypes]:
        """The types of the latents of each group."""
        return {group: found.types for group, found in self.groups.items()}

    @property
    def cards(self) -> tuple[Card, ...]:
        """The card about the groups, then those of each group with its name, the worst first."""
        own = [
            replace(card, title=f"{group}: {card.title}") for group, one in self.groups.items() for card in one.cards
        ]
        return (self.card, *by_severity(own))

    @property
    def scores(self) -> tuple[Score, ...]:
        """The metrics of all groups."""
        return tuple(score for found in self.groups.values() for score in found.scores)

    def rows(self) -> list[dict[str, Any]]:
        """One row per latent, with the name of its group."""
        return [{"group": group, **row} for group, found in self.groups.items() for row in found.rows()]

    @property
    def headline(self) -> Headline:
        """What matters most: the worst state of a group, and the card about the groups."""
        return groups_headline({group: found.headline for group, found in self.groups.items()}, self.card)

    def summary(self) -> str:
        """The verdict on each group."""
        return " ".join(f"{group}: {found.summary()}" for group, found in self.groups.items())

    def _repr_html_(self) -> str | None:
        return render_view(self)

    def plain(self) -> dict[str, object]:
        """The diagnosis as a JSON-compatible dictionary."""
        groups = {group: found.plain() for group, found in self.groups.items()}
        verdict = {"verdict": self.summary(), "headline": self.headline.plain()}
        return {"name": self.name, **verdict, "card": self.card.plain(), "groups": groups}


def diagnose(
    subject: object,
    data: DataLike | None = None,
    *,
    alpha: float = ALPHA,
    items: int = MAX_ITEMS,
    predict: bool = False,
    metrics: str | Sequence[str] = (),
    exclude: str | None = None,
    seed: int = 0,
    runs: str | Path | None = None,
) -> Diagnosis | GroupedDiagnosis:
    """Find out which latents are in use, whether and why the posterior collapsed, and what to do about it.

    Args:
        subject: A `Run`, its folder or the start of its id; a model of any library or a function of a batch, which also
            needs `data` (see `vaescope.wrap` for what is recognised); a `Representation`; a pair (mean, variance) of
            arrays or a mapping with `mean` and `variance` or `log_variance`; a file of codes (.npz, .csv). Of spatial
            codes, the channels are the latents. A mapping from names to codes is a hierarchy of groups of latents.
        data: The items to encode, opened first if they have options; default: the data that the run was trained on.
        alpha: The threshold of the variable types.
        items: The maximum number of items to encode; of spatial codes, at most a million positions.
        predict: Whether to check the types by predicting the factors or labels (Bonheme, figure 6.4).
        metrics: Names from `vaescope.metrics.METRICS`, or 'all'. Those that the data do not allow, for instance
            because a factor's value occurs once, are left out with the reason.
        exclude: A type of latents ('active', 'mixed' or 'passive') that meaning, metrics and importance leave out, or
            'none'. Default: 'passive'; the means of passive latents can be predictable, but their samples are noise.
        seed: The random seed for sampling and item selection.
        runs: The folder that contains the runs; default: 'runs'.

    Returns:
        The types of the latents, the cards, and the metrics; one such result per group of latents if there are several.
    """
    if exclude not in (None, NONE_EXCLUDED, *VARIABLE_TYPES):
        raise unknown_name("exclude", exclude, (*VARIABLE_TYPES, NONE_EXCLUDED))
    loaded = load_subjects(subject, data, items=items, seed=seed, runs=runs)
    found = {
        group: diagnose_subject(one, alpha=alpha, predict=predict, metrics=metrics, exclude=exclude, seed=seed)
        for group, one in loaded.items()
    }
    if list(found) == [""]:
        return found[""]
    return diagnose_groups(subject_name(subject), loaded, found)


def diagnose_groups(name: str, subjects: Mapping[str, Subject], diagnoses: Mapping[str, Diagnosis]) -> GroupedDiagnosis:
    """The diagnoses of all groups of latents, with their subjects."""
    positions = {group: math.prod(one.codes.positions or ()) for group, one in subjects.items()}
    return GroupedDiagnosis.of(name, diagnoses, positions)


def diagnose_subject(
    subject: Subject,
    *,
    alpha: float = ALPHA,
    predict: bool = False,
    metrics: str | Sequence[str] = (),
    exclude: str | None = None,
    seed: int = 0,
) -> Diagnosis:
    """Diagnose a subject that is already loaded; the arguments are those of `diagnose`."""
    codes, names = subject.codes, subject.factor_names
    if predict and codes.factors is None and codes.labels is None:
        raise DataError(
            f"predict needs factors or labels, but {subject.name} has neither. Use data with factors or labels, or "
            "predict=False."
        )
    excluded = DEFAULT_EXCLUDED if exclude is None else None if exclude == NONE_EXCLUDED else exclude
    found = collapse(codes, alpha=alpha)
    types = found.types
    # Deterministic codes have no types, so no latent of them is left out.
    excluded = None if cards.is_deterministic(types) else excluded
    decoder = decoder_of(subject.model, subject.items)
    measured = measure_all(
        metrics, codes, names=names, decoder=decoder, exclude=excluded, types=types, seed=seed, partial=True
    )
    encoded = meaning(codes, names=names) if count_varying(codes.factors, codes.labels) else None
    if encoded is not None and excluded is not None:
        encoded = encoded.leaving_out([latent for latent, kind in enumerate(types.types) if kind == excluded])
        positions = math.prod(codes.positions or ())
        encoded = replace(encoded, rates=tuple(rate * positions for rate in found.rates))
    facts = _facts(subject, found, downstream(codes, types, seed=seed) if predict else None)
    findings = [*_regime_cards(subject, facts), *_run_cards(subject)]
    if predict:
        findings.append(downstream_card(facts))
    if encoded is not None:
        findings.append(meaning_card(encoded))
    if measured.scores or measured.left_out:
        findings.append(scores_card(measured, excluded))
    if encoded is not None:
        findings += [importance_card(score, encoded) for score in measured.scores if score.metric == "dci"]
    return Diagnosis(
        subject.name,
        types,
        by_severity(findings),
        headline(facts),
        encoded,
        measured.scores,
        facts.reconstruction,
        bool(facts.strengths),
    )


def _facts(subject: Subject, found: Collapse, predicted: Downstream | None) -> Facts:
    """Everything that the headline and the cards are about."""
    codes, run = subject.codes, subject.run
    objective = None if run is None else run.configuration.member.objective
    information = formed = None
    # A variance of 0 makes the rate infinite, so it cannot be compared.
    if math.isfinite(found.rate):
        information = mutual_information_bound(codes.mean, codes.variance, codes.sample, prior=codes.prior)
        if ACTIVE in found.types.by_rule["rolinek"]:
            formed = delta_kl(codes.mean, codes.variance, prior=codes.prior)
    reconstruction, reason = None, ""
    try:
        reconstruction = reconstruction_of(subject)
    except NotReconstructed as error:
        reason = str(error)
    return Facts(
        "run" if run is not None else "model" if subject.model is not None else "codes",
        found,
        formed,
        information,
        course_of(subject.history, objective) if subject.history else None,
        reconstruction,
        reason,
        predicted,
        subject.history,
        spatial=codes.positions is not None,
        strengths="" if objective is None else in_words(objective),
    )


def _regime_cards(subject: Subject, facts: Facts) -> list[Card]:
    codes = subject.codes
    own = []
    if isinstance(subject.model, WrappedModel):
        own.append(cards.model_card(subject.model.summary()))
    if codes.positions is not None:
        own.append(cards.positions_card(rate_by_position(codes), codes.item_count))
    compared = mean_and_sampled(codes, facts.types) if len(codes) > codes.latents else None
    found = [
        course_card(facts),
        reconstruction_card(facts),
        collapse_card(facts),
        types_card(facts),
        rate_card(facts),
        mean_and_sampled_card(compared, facts),
        mixed_card(facts),
        formed_card(facts),
    ]
    return own + [card for card in found if card is not None]


def _run_cards(subject: Subject) -> list[Card]:
    """The cards that only runs have: an unusual prior, and a missing history."""
    if subject.run is None:
        return []
    architecture = subject.run.configuration.architecture
    prior, found = PRIORS.name_of(architecture.prior), []
    if prior != "standard" and architecture.model != "autoencoder":
        found.append(cards.prior_card(prior, measured=subject.codes.prior is not None))
    if not subject.history:
        found.append(Card("History", NOT_APPLICABLE, subject.missing["History"]))
    return found
