"""Diagnose a run, codes, or anything that encodes: a verdict, cards by severity, a row for each latent."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vaescope.checks import whole_number, without_infinities
from vaescope.data import Dataset, open_dataset
from vaescope.errors import DataError, VaescopeError
from vaescope.numerics.polarised import ACTIVE, ALPHA
from vaescope.objectives.strengths import telling
from vaescope.regime import (
    VariableTypes,
    collapse,
    delta_kl,
    downstream,
    mean_and_sampled,
    mutual_information_bound,
)
from vaescope.report import regime_cards
from vaescope.report.cards import Card, by_severity
from vaescope.representation import Representation, adapt, encode
from vaescope.representation.adapters import FILES
from vaescope.runs import Run, Store

ITEMS = 10_000


@dataclass(frozen=True)
class Diagnosis:
    """What was found: the types of the latents and the cards, the worst first."""

    name: str
    types: VariableTypes
    cards: tuple[Card, ...]

    def rows(self) -> list[dict[str, Any]]:
        """One row for each latent."""
        return self.types.rows()

    def summary(self) -> str:
        """The verdict in one sentence."""
        return regime_cards.verdict(self.types)

    def plain(self) -> dict[str, Any]:
        """All of it as tables for machines."""
        cards = [card.plain() for card in self.cards]
        return {
            "name": self.name,
            "verdict": self.summary(),
            "latents": without_infinities(self.rows()),
            "cards": cards,
        }


def diagnose(
    subject: Any,
    data: Any = None,
    *,
    alpha: float = ALPHA,
    items: int = ITEMS,
    predict: bool = False,
    seed: int = 0,
    runs: str | Path | None = None,
) -> Diagnosis:
    """Which latents are alive, whether and why the posterior collapsed, and what to do.

    `subject` is a `Run` (or its folder or id), a `Representation`, a pair (mean, variance), a file of codes, or a
    function from a batch to a posterior or to (mean, variance), with `data`. Of data, at most `items` are encoded.
    `predict` adds the sanity check of the types on the factors or labels (Bonheme, figure 6.4).
    """
    run = _run_of(subject, runs)
    if run is not None:
        codes = encode(run.model, _some(_data_of(run, data), items, seed), seed=seed)
        settings = telling(run.configuration.member.objective)
        words = ", ".join(f"{name} {value:g}" for name, value in settings.items())
        found = _diagnosis(run.id, codes, run.history, words, alpha, predict, seed)
        prior = run.configuration.architecture.plain()["prior"]["name"]
        if prior == "standard" or run.configuration.architecture.model == "autoencoder":
            return found
        card = regime_cards.prior_card(prior, measured=codes.prior is not None)
        return replace(found, cards=by_severity([*found.cards, card]))
    data = None if data is None else _some(open_dataset(data), items, seed)
    return _diagnosis(_name(subject), adapt(subject, data, seed=seed), [], "", alpha, predict, seed)


def _diagnosis(
    name: str,
    codes: Representation,
    history: list[dict[str, Any]],
    settings: str,
    alpha: float,
    predict: bool,
    seed: int,
) -> Diagnosis:
    found = collapse(codes, alpha=alpha)
    types = found.types
    if predict and codes.factors is None and codes.labels is None:
        raise DataError(f"predict needs factors or labels, {name} has neither. Add them, or leave predict out.")
    # A variance of 0 makes the rate infinite: there is nothing to compare it with.
    has_rate = math.isfinite(found.rate)
    has_active = ACTIVE in types.by_rule["rolinek"]
    formed = delta_kl(codes.mean, codes.variance, prior=codes.prior) if has_rate and has_active else None
    cards = [
        regime_cards.collapse_card(found, history, settings),
        regime_cards.types_card(types),
        regime_cards.rate_card(
            found,
            mutual_information_bound(codes.mean, codes.variance, codes.sample, prior=codes.prior) if has_rate else None,
        ),
        regime_cards.mean_and_sampled_card(mean_and_sampled(codes, types) if len(codes) > codes.latents else None),
        regime_cards.mixed_card(types),
        regime_cards.formed_card(formed, history),
    ]
    if predict:
        cards.append(regime_cards.downstream_card(downstream(codes, types, seed=seed)))
    return Diagnosis(name, types, by_severity(cards))


def _name(subject: Any) -> str:
    """What to call codes that are no run: their file, the function, or just codes."""
    if isinstance(subject, str | Path):
        return str(subject)
    return getattr(subject, "__name__", type(subject).__name__) if callable(subject) else "codes"


def _run_of(subject: Any, runs: str | Path | None) -> Run | None:
    """The run that a folder or the beginning of an id stands for; None for other subjects."""
    if isinstance(subject, Run):
        return subject
    if not isinstance(subject, str | Path) or Path(subject).is_file() or Path(subject).suffix.lower() in FILES:
        return None
    store = Store(Path(runs)) if runs is not None else Store()
    return store.find(str(subject))


def _data_of(run: Run, data: Any) -> Dataset:
    """The data that a run was trained on, opened again unless given; others are allowed if their items fit."""
    if data is None:
        return _trained_on(run)
    opened, shape = open_dataset(data), tuple(run.configuration.data["shape"])
    if tuple(opened.shape) != shape:
        raise DataError(
            f"{opened.name} must have items of the shape {shape} that run {run.id} was trained on, got "
            f"{tuple(opened.shape)}."
        )
    return opened


def _trained_on(run: Run) -> Dataset:
    source, name = run.record.get("source"), run.configuration.data["name"]
    if source is None:
        raise DataError(f"run {run.id} was trained on data that it cannot open again ({name}); pass them as data.")
    try:
        opened = open_dataset(source)
    except VaescopeError as error:
        raise DataError(f"the data of run {run.id} cannot be opened again; pass them as data. {error}") from error
    if opened.fingerprint != run.configuration.data["fingerprint"]:
        raise DataError(
            f"{source} must be what run {run.id} was trained on, it has changed since. Pass data to use it."
        )
    return opened


def _some(data: Dataset, items: int, seed: int) -> Dataset:
    """At most so many items, drawn by the seed."""
    return data.draw(whole_number("items", items, 2), seed)
