"""Diagnose a run, codes, or anything that encodes: a verdict, cards by severity, a row for each latent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vaescope.checks import whole_number
from vaescope.data import Dataset, Subset, open_dataset
from vaescope.errors import DataError, VaescopeError
from vaescope.numerics import counter
from vaescope.numerics.polarised import ALPHA
from vaescope.objectives import strengths
from vaescope.regime import (
    VariableTypes,
    collapse,
    delta_kl,
    downstream,
    mean_and_sampled,
    mutual_information_bound,
    variable_types,
)
from vaescope.report import regime_cards
from vaescope.report.cards import BAD, WARNING, Card, by_severity
from vaescope.representation import Representation, adapt, encode
from vaescope.runs import Run, Store
from vaescope.runs.run import RUN_FILE

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
        worst = next((card for card in self.cards if card.status in (BAD, WARNING)), None)
        trouble = f"{worst.title.lower()}: {worst.status}" if worst else "no collapse"
        return f"{self.types.summary()}; {trouble}."

    def plain(self) -> dict[str, Any]:
        """All of it as tables for machines."""
        cards = [card.plain() for card in self.cards]
        return {"name": self.name, "verdict": self.summary(), "latents": self.rows(), "cards": cards}


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
        settings = strengths(run.configuration.member.objective)
        history, words = run.history, ", ".join(f"{name} {value:g}" for name, value in settings.items())
        return _diagnosis(run.id, codes, history, words, alpha, predict, seed)
    data = None if data is None else _some(open_dataset(data), items, seed)
    name = subject if isinstance(subject, str) else type(subject).__name__
    return _diagnosis(str(name), adapt(subject, data, seed=seed), [], "", alpha, predict, seed)


def _diagnosis(
    name: str,
    codes: Representation,
    history: list[dict[str, Any]],
    settings: str,
    alpha: float,
    predict: bool,
    seed: int,
) -> Diagnosis:
    types = variable_types(codes, alpha=alpha)
    found = collapse(codes, alpha=alpha)
    has_variance = bool((codes.variance > 0).all())
    cards = [
        regime_cards.collapse_card(found, history, settings),
        regime_cards.types_card(types),
        regime_cards.rate_card(
            found, mutual_information_bound(codes.mean, codes.variance, codes.sample) if has_variance else None
        ),
        regime_cards.mean_and_sampled_card(mean_and_sampled(codes, types) if len(codes) > codes.latents else None),
        regime_cards.mixed_card(types),
        regime_cards.formed_card(
            delta_kl(codes.mean, codes.variance) if "active" in types.by_rule["rolinek"] else None
        ),
    ]
    if predict:
        cards.append(regime_cards.downstream_card(downstream(codes, types, seed=seed)))
    return Diagnosis(name, types, by_severity(cards))


def _run_of(subject: Any, runs: str | Path | None) -> Run | None:
    """The run that a folder or the beginning of an id stands for; None for other subjects."""
    if isinstance(subject, Run):
        return subject
    if not isinstance(subject, str | Path) or Path(subject).is_file():
        return None
    if (Path(subject) / RUN_FILE).is_file():
        return Run.open(subject)
    store = Store(Path(runs)) if runs is not None else Store()
    try:
        return store.find(str(subject))
    except VaescopeError as error:
        raise DataError(
            f"{str(subject)!r} must be a run or a file of codes (.npz, .csv), it is neither: {error}"
        ) from error


def _data_of(run: Run, data: Any) -> Dataset:
    """The data that a run was trained on, opened again unless given; other data are allowed when given."""
    if data is not None:
        return open_dataset(data)
    source = run.record.get("source")
    if source is None:
        raise DataError(
            f"run {run.id} was trained on data that have no name ({run.configuration.data['name']}); pass them as data."
        )
    opened = open_dataset(source)
    if opened.fingerprint != run.configuration.data["fingerprint"]:
        raise DataError(
            f"{source} must be what run {run.id} was trained on, it has changed since. Pass data to use it."
        )
    return opened


def _some(data: Dataset, items: int, seed: int) -> Dataset:
    """At most so many items, drawn by the seed."""
    items = whole_number("items", items, 2)
    if len(data) <= items:
        return data
    order = counter.permutation(torch.tensor(seed), "diagnosed items", torch.tensor(0), len(data))
    return Subset.of(data, order[:items].sort().values)
