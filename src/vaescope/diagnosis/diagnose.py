"""Diagnose a run, codes, or anything that encodes: a verdict, cards by severity, a row for each latent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vaescope.checks import without_infinities
from vaescope.codes import Representation
from vaescope.diagnosis import metric_cards, regime_cards
from vaescope.diagnosis.cards import NOT_APPLICABLE, Card, by_severity
from vaescope.diagnosis.subject import ITEMS, Material, gather
from vaescope.encoding import decoder_of
from vaescope.errors import ConfigurationError, DataError
from vaescope.metrics import Measurements, Score, measure_all
from vaescope.metrics.inputs import count_varying
from vaescope.metrics.meaning import Meaning, meaning
from vaescope.notebook import render_view
from vaescope.numerics.polarised import ALPHA
from vaescope.numerics.variable_type_names import ACTIVE
from vaescope.objectives.strengths import telling
from vaescope.priors import PRIORS
from vaescope.regime import (
    VariableTypes,
    collapse,
    delta_kl,
    downstream,
    mean_and_sampled,
    mutual_information_bound,
)
from vaescope.runs import Run


@dataclass(frozen=True)
class Diagnosis:
    """What was found: the types of the latents and the cards, the worst first."""

    name: str
    types: VariableTypes
    cards: tuple[Card, ...]
    meaning: Meaning | None = None
    scores: tuple[Score, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """One row for each latent; with factors, what it encodes in words."""
        rows = self.types.rows()
        if self.meaning is None:
            return rows
        return [{**row, "encodes": words} for row, words in zip(rows, self.meaning.sentences(), strict=True)]

    def summary(self) -> str:
        """The verdict in one sentence."""
        return regime_cards.verdict(self.types)

    def _repr_html_(self) -> str | None:
        return render_view(self)

    def plain(self) -> dict[str, Any]:
        """All of it as tables for machines."""
        cards = [card.plain() for card in self.cards]
        return {
            "name": self.name,
            "verdict": self.summary(),
            "latents": without_infinities(self.rows()),
            "cards": cards,
            "metrics": without_infinities([score.plain() for score in self.scores]),
        }


def diagnose(
    subject: Any,
    data: Any = None,
    *,
    alpha: float = ALPHA,
    items: int = ITEMS,
    predict: bool = False,
    metrics: str | Sequence[str] = (),
    exclude: str | None = None,
    seed: int = 0,
    runs: str | Path | None = None,
) -> Diagnosis:
    """Which latents are alive, whether and why the posterior collapsed, and what to do.

    `subject` is a `Run` (or its folder or id), a `Representation`, a pair (mean, variance), a file of codes, or a
    function from a batch to a posterior or to (mean, variance), with `data`. Of data, at most `items` are encoded.
    `predict` adds the sanity check of the types on the factors or labels (Bonheme, figure 6.4), `metrics` the scores of
    those named in `vs.metrics.METRICS`, or of "all" that can be had, without the latents of the type `exclude`.
    """
    if exclude is not None and not metrics:
        raise ConfigurationError(
            f"exclude leaves latents out of metrics, and none is named. Name some, or drop {exclude!r}."
        )
    material = gather(subject, data, items=items, seed=seed, runs=runs)
    return diagnosis_of(material, alpha=alpha, predict=predict, metrics=metrics, exclude=exclude, seed=seed)


def diagnosis_of(
    material: Material,
    *,
    alpha: float = ALPHA,
    predict: bool = False,
    metrics: str | Sequence[str] = (),
    exclude: str | None = None,
    seed: int = 0,
) -> Diagnosis:
    """What `diagnose` finds, of material that was gathered before."""
    codes, names = material.codes, material.factor_names
    found = _diagnosis(material, alpha, predict, seed)
    measured = measure_all(
        metrics,
        codes,
        names=names,
        decoder=decoder_of(material.model, material.items),
        exclude=exclude,
        types=found.types,
        seed=seed,
    )
    return _with_metrics(found, codes, names, measured)


def _settings(run: Run) -> str:
    """The strengths of a run's objective in words."""
    return ", ".join(f"{name} {value:g}" for name, value in telling(run.configuration.member.objective).items())


def _prior_cards(run: Run, codes: Representation) -> list[Card]:
    """What codes are measured against, where that is not the prior of every VAE."""
    architecture = run.configuration.architecture
    prior = PRIORS.name_of(architecture.prior)
    if prior == "standard" or architecture.model == "autoencoder":
        return []
    return [regime_cards.prior_card(prior, measured=codes.prior is not None)]


def _with_metrics(
    found: Diagnosis, codes: Representation, names: Sequence[str] | None, measured: Measurements
) -> Diagnosis:
    """The diagnosis with what the latents mean, where there are factors, and the scores that were asked for."""
    told = meaning(codes, names=names) if count_varying(codes.factors, codes.labels) else None
    cards = [*found.cards]
    cards += [] if told is None else [metric_cards.meaning_card(told)]
    cards += [metric_cards.scores_card(measured)] if measured.scores or measured.left_out else []
    cards += [metric_cards.importance_card(score) for score in measured.scores if score.metric == "dci"]
    return replace(found, cards=by_severity(cards), meaning=told, scores=measured.scores)


def _diagnosis(material: Material, alpha: float, predict: bool, seed: int) -> Diagnosis:
    codes, run, history = material.codes, material.run, material.history
    found = collapse(codes, alpha=alpha)
    types = found.types
    if predict and codes.factors is None and codes.labels is None:
        raise DataError(
            f"predict needs factors or labels, {material.name} has neither. Add them, or leave predict out."
        )
    # A variance of 0 makes the rate infinite: there is nothing to compare it with.
    has_rate = math.isfinite(found.rate)
    has_active = ACTIVE in types.by_rule["rolinek"]
    formed = delta_kl(codes.mean, codes.variance, prior=codes.prior) if has_rate and has_active else None
    cards = [
        regime_cards.collapse_card(found, history, "" if run is None else _settings(run)),
        regime_cards.types_card(types),
        regime_cards.rate_card(
            found,
            mutual_information_bound(codes.mean, codes.variance, codes.sample, prior=codes.prior) if has_rate else None,
        ),
        regime_cards.mean_and_sampled_card(mean_and_sampled(codes, types) if len(codes) > codes.latents else None),
        regime_cards.mixed_card(types),
        regime_cards.formed_card(formed, history),
    ]
    if run is not None:
        cards += _prior_cards(run, codes)
        cards += [Card("History", NOT_APPLICABLE, material.left_out["History"])] if not history else []
    if predict:
        cards.append(regime_cards.downstream_card(downstream(codes, types, seed=seed)))
    return Diagnosis(material.name, types, by_severity(cards))
