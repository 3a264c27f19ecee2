"""`vaescope.diagnose`: a verdict, cards sorted by severity, and one row per latent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vaescope.checks import without_infinities
from vaescope.data import DataLike
from vaescope.diagnosis import cards
from vaescope.diagnosis.cards import NOT_APPLICABLE, Card, by_severity
from vaescope.diagnosis.subject import MAX_ITEMS, Subject, load_subject
from vaescope.encoding import decoder_of
from vaescope.errors import ConfigurationError, DataError
from vaescope.metrics import Meaning, Score, meaning, measure_all
from vaescope.metrics.inputs import count_varying
from vaescope.notebook import render_view
from vaescope.numerics.polarised import ALPHA
from vaescope.numerics.variable_type_names import ACTIVE
from vaescope.objectives import in_words
from vaescope.priors import PRIORS
from vaescope.regime import (
    Collapse,
    VariableTypes,
    collapse,
    delta_kl,
    downstream,
    mean_and_sampled,
    mutual_information_bound,
)


@dataclass(frozen=True)
class Diagnosis:
    """The result of `diagnose`.

    Attributes:
        name: The run's id, the file name, or the function's name.
        types: The type of each latent.
        cards: The findings, the worst first.
        meaning: What each latent encodes; None without factors.
        scores: The metrics that were asked for.
    """

    name: str
    types: VariableTypes
    cards: tuple[Card, ...]
    meaning: Meaning | None = None
    scores: tuple[Score, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """One row per latent; with factors, the column `encodes` says what it encodes."""
        rows = self.types.rows()
        if self.meaning is None:
            return rows
        return [{**row, "encodes": text} for row, text in zip(rows, self.meaning.sentences(), strict=True)]

    def summary(self) -> str:
        """The verdict in one sentence."""
        return cards.verdict(self.types)

    def _repr_html_(self) -> str | None:
        return render_view(self)

    def plain(self) -> dict[str, object]:
        """The diagnosis as a JSON-compatible dictionary."""
        return {
            "name": self.name,
            "verdict": self.summary(),
            "latents": without_infinities(self.rows()),
            "cards": [card.plain() for card in self.cards],
            "metrics": without_infinities([score.plain() for score in self.scores]),
        }


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
) -> Diagnosis:
    """Find out which latents are in use, whether and why the posterior collapsed, and what to do about it.

    Args:
        subject: A `Run`, its folder or the start of its id; a `Representation`; a pair (mean, variance) of arrays; a
            file of codes (.npz, .csv); or a model or function that maps a batch to a posterior or to
            (mean, variance), which also needs `data`.
        data: The items to encode; default: the data that the run was trained on.
        alpha: The threshold of the variable types.
        items: The maximum number of items to encode.
        predict: Whether to check the types by predicting the factors or labels (Bonheme, figure 6.4).
        metrics: Names from `vaescope.metrics.METRICS`, or 'all'. Those that the data do not allow, for instance
            because a factor's value occurs once, are left out with the reason.
        exclude: A type of latents ('active', 'mixed' or 'passive') that the metrics leave out.
        seed: The random seed for sampling and item selection.
        runs: The folder that contains the runs; default: 'runs'.

    Returns:
        The types of the latents, the cards, and the metrics.
    """
    if exclude is not None and not metrics:
        raise ConfigurationError(
            f"exclude applies to metrics, but no metrics are requested. Pass metrics, or drop exclude={exclude!r}."
        )
    loaded = load_subject(subject, data, items=items, seed=seed, runs=runs)
    return diagnose_subject(loaded, alpha=alpha, predict=predict, metrics=metrics, exclude=exclude, seed=seed)


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
    found = collapse(codes, alpha=alpha)
    types = found.types
    decoder = decoder_of(subject.model, subject.items)
    measured = measure_all(
        metrics, codes, names=names, decoder=decoder, exclude=exclude, types=types, seed=seed, partial=True
    )
    encoded = meaning(codes, names=names) if count_varying(codes.factors, codes.labels) else None
    findings = [*_regime_cards(subject, found), *_run_cards(subject)]
    if predict:
        findings.append(cards.downstream_card(downstream(codes, types, seed=seed)))
    if encoded is not None:
        findings.append(cards.meaning_card(encoded))
    if measured.scores or measured.left_out:
        findings.append(cards.scores_card(measured))
    findings += [cards.importance_card(score) for score in measured.scores if score.metric == "dci"]
    return Diagnosis(subject.name, types, by_severity(findings), encoded, measured.scores)


def _regime_cards(subject: Subject, found: Collapse) -> list[Card]:
    codes, types, history = subject.codes, found.types, subject.history
    strengths = "" if subject.run is None else in_words(subject.run.configuration.member.objective)
    information = formed = None
    # A variance of 0 makes the rate infinite, and then there is nothing to compare it with.
    if math.isfinite(found.rate):
        information = mutual_information_bound(codes.mean, codes.variance, codes.sample, prior=codes.prior)
        if ACTIVE in types.by_rule["rolinek"]:
            formed = delta_kl(codes.mean, codes.variance, prior=codes.prior)
    return [
        cards.collapse_card(found, history, strengths),
        cards.types_card(types),
        cards.rate_card(found, information),
        cards.mean_and_sampled_card(mean_and_sampled(codes, types) if len(codes) > codes.latents else None),
        cards.mixed_card(types),
        cards.formed_card(formed, history),
    ]


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
