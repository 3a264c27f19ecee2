"""The elbow check of a number of latents: what trained models of a few sizes lose and hold (Bonheme, figures 8.5-8)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from vaescope.checks import whole_number
from vaescope.data import open_dataset
from vaescope.data.dataset import describe
from vaescope.errors import ConfigurationError, RunError
from vaescope.notebook import NotebookResult
from vaescope.objectives import Beta
from vaescope.runs import FitOptions, Run, fit_many
from vaescope.sizing.downstream import predict
from vaescope.sizing.store import keep_check
from vaescope.training import Member

SHARES = (1 / 4, 1 / 2, 3 / 4, 1, 3 / 2, 2, 3)
ROUNDING = 1e-9


@dataclass(frozen=True)
class Point:
    """One size: held-out losses and accuracies (if any) by seed, their means, and deviations (None for one seed)."""

    latents: int
    losses: tuple[float, ...]
    accuracies: tuple[float, ...] | None = None
    loss: float = field(init=False)
    loss_sd: float | None = field(init=False)
    accuracy: float | None = field(init=False)
    accuracy_sd: float | None = field(init=False)

    def __post_init__(self) -> None:
        for name, values in (("loss", self.losses), ("accuracy", self.accuracies)):
            object.__setattr__(self, name, fmean(values) if values else None)
            object.__setattr__(self, f"{name}_sd", stdev(values) if values and len(values) > 1 else None)


@dataclass(frozen=True)
class Elbow(NotebookResult):
    """Points by ascending size, the targets whose accuracy they hold, and the accuracy of the majority guess."""

    chosen: int | None
    points: tuple[Point, ...]
    targets: tuple[str, ...] = ()
    majority: float | None = None
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def elbow(self) -> int | None:
        """The size at the knee: furthest below the chord of the loss from the first to the last size.

        Furthest along the loss axis is furthest at a right angle too, whatever the units of the axes. None where no
        size lies below both the chord and the first loss by more than the seeds spread.
        """
        first, last = self.points[0], self.points[-1]
        noise = max([point.loss_sd or ROUNDING * abs(point.loss) for point in self.points])
        depths = {0: noise}  # what a knee must pass
        for point in self.points[1:-1]:
            way = (point.latents - first.latents) / (last.latents - first.latents)
            # A loss that only rises bends too, but nothing is won at its bend.
            if first.loss - point.loss > noise:
                depths[point.latents] = first.loss + way * (last.loss - first.loss) - point.loss
        return max(depths, key=depths.__getitem__) or None

    @property
    def agrees(self) -> bool | None:
        """Whether the chosen number lies within the sizes tried on both sides of the elbow; None without either."""
        if self.elbow is None or self.chosen is None:
            return None
        return self._beside(self.elbow)[0] <= self.chosen <= self._beside(self.elbow)[1]

    def rows(self) -> list[dict[str, Any]]:
        """One flat row for each size."""
        return [
            {name: getattr(point, name) for name in ("latents", "loss", "loss_sd", "accuracy", "accuracy_sd")}
            | {"majority": self.majority, "seeds": len(point.losses)}
            | {"chosen": point.latents == self.chosen, "elbow": point.latents == self.elbow}
            for point in self.points
        ]

    def plain(self) -> dict[str, Any]:
        """Everything in tables, lists, text and numbers."""
        points = [
            {"latents": point.latents, "losses": point.losses, "accuracies": point.accuracies} for point in self.points
        ]
        own = {name: getattr(self, name) for name in ("chosen", "targets", "majority", "data")}
        return {"summary": self.summary(), "elbow": self.elbow, **own, "points": points}

    @classmethod
    def from_plain(cls, table: dict[str, Any]) -> Elbow:
        """The check that `plain` wrote."""
        points = [
            Point(point["latents"], tuple(point["losses"]), point["accuracies"] and tuple(point["accuracies"]))
            for point in table["points"]
        ]
        return cls(table["chosen"], tuple(points), tuple(table["targets"]), table["majority"], table["data"])

    def summary(self) -> str:
        """One sentence: where the elbow lies beside the chosen number, how the loss falls, what can be predicted."""
        return f"{self._verdict()}; {self._fall()}; {self._predicted()}."

    def _beside(self, size: int) -> tuple[int, int]:
        """The nearest sizes tried below and above; the size itself where there is none."""
        sizes = [point.latents for point in self.points]
        below, above = [one for one in sizes if one < size], [one for one in sizes if one > size]
        return max(below, default=size), min(above, default=size)

    def _marked(self) -> tuple[int, ...]:
        """The chosen number, or else the elbow, and the sizes beside it."""
        mark = self.elbow if self.chosen is None else self.chosen
        return () if mark is None else (*self._beside(mark), mark)

    def _verdict(self) -> str:
        if self.elbow is None:
            why = "fewer than 3 sizes show no elbow" if len(self.points) < 3 else "the loss has no elbow at these sizes"
            return why if self.chosen is None else f"{why}, which says nothing about the {self.chosen} chosen"
        text = f"the elbow of these sizes lies at {_count(self.elbow)}"
        if self.chosen is None or self.chosen == self.elbow:
            return text if self.chosen is None else f"{text}, the number chosen"
        where = "within" if self.agrees else "outside"
        below, above = self._beside(self.elbow)
        return f"{text}; {self.chosen} was chosen, {where} the sizes tried beside the elbow, {below} and {above}"

    def _fall(self) -> str:
        first, lowest = self.points[0], min(self.points, key=lambda point: point.loss)
        start = f"{first.loss:.4g} with {_count(first.latents)}"
        if lowest is first:
            return f"the reconstruction loss is {start}" + (", the lowest of all sizes" if len(self.points) > 1 else "")
        shares = [
            f", {(first.loss - point.loss) / (first.loss - lowest.loss):.0%} of it with {point.latents}"
            for point in self.points
            if point.latents in self._marked() and first.latents < point.latents < lowest.latents
        ]
        last, end = self.points[-1], f"{lowest.loss:.4g} with {lowest.latents}{''.join(shares)}"
        after = "" if last is lowest else f", and is {last.loss:.4g} with {last.latents}"
        return f"the reconstruction loss falls from {start} to {end}{after}"

    def _predicted(self) -> str:
        if self.majority is None:
            return "there is no accuracy, as the data have no factors or labels that vary"
        shown = {self.points[0].latents, *self._marked(), self.points[-1].latents}
        parts = [f"{point.accuracy:.3g} with {point.latents}" for point in self.points if point.latents in shown]
        what = self.targets[0] if len(self.targets) == 1 else f"{len(self.targets)} targets"
        return f"the accuracy for {what} is {', '.join(parts)} (majority guess {self.majority:.3g})"


def elbow(
    data: Any,
    sizes: Iterable[int],
    chosen: int | None = None,
    *,
    objective: Any = None,
    learning_rate: float = 1e-4,
    seeds: Iterable[int] = (0,),
    items: int = 10_000,
    **settings: Any,
) -> Elbow:
    """Train a model of each size and seed, and see where its losses flatten; what was trained before is not again.

    The result is kept beside the runs.

    Args:
        data: as for `fit`; factors and labels that vary are predicted, each on its own, from the mean representation.
        sizes: numbers of latents to train; see `default_sizes`.
        chosen: the number of latents to compare with, tried or not.
        items: at most so many training items teach the trees that predict, half as many held-out ones test them.
        settings: those of `fit`. The loss is that on its held-out items, at most `evaluation_items` of them.
    """
    latents, seeds = sorted(_distinct("sizes", sizes, 1)), _distinct("seeds", seeds, 0)
    chosen = None if chosen is None else whole_number("chosen", chosen, 1)
    items = whole_number("items", items, 2)
    known = FitOptions.of(settings)
    if not known.held_out:
        raise ConfigurationError("held_out must be above 0: the elbow is that of losses on held-out items, got 0.")
    opened, objective = open_dataset(data), Beta() if objective is None else objective
    members = [Member(size, objective, learning_rate, seed) for size in latents for seed in seeds]
    # A run remembers the name or path that it was trained on, and can be diagnosed by it.
    runs = fit_many(data if isinstance(data, str | Path) else opened, members, **settings)
    losses = tuple(_loss(run) for run in runs)
    predicted = predict(runs, opened, known, items)
    parts = [slice(first, first + len(seeds)) for first in range(0, len(runs), len(seeds))]
    pairs = zip(latents, parts, strict=True)
    points = tuple(Point(size, losses[own], predicted.accuracies[own] or None) for size, own in pairs)
    found = Elbow(chosen, points, predicted.targets, predicted.majority, describe(opened))
    keep_check(Path(known.runs), found, [run.id for run in runs])
    return found


def default_sizes(chosen: int, limit: int) -> tuple[int, ...]:
    """Sizes from a quarter to three times the chosen number, up to `limit`, among which an elbow can be seen."""
    limit = whole_number("limit", limit, 1)
    chosen = whole_number("chosen", chosen, 1, limit)
    return tuple(sorted({min(limit, max(1, round(share * chosen))) for share in SHARES}))


def _distinct(name: str, values: Any, least: int) -> list[int]:
    """Whole numbers, each once."""
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise ConfigurationError(f"{name} must be a list of whole numbers, got {values!r}. Write [{values}].")
    numbers = list(dict.fromkeys(whole_number(f"each of {name}", value, least) for value in values))
    if not numbers:
        raise ConfigurationError(f"{name} must hold at least one number, got none.")
    return numbers


def _loss(run: Run) -> float:
    loss = float(run.last("test")["reconstruction"])
    if not math.isfinite(loss):
        raise RunError(
            f"the reconstruction loss on held-out items must be finite, it is {loss} in run {run.id} with "
            f"{_count(run.configuration.member.latents)}. Lower the learning rate, or look at the held-out items."
        )
    return loss


def _count(latents: int) -> str:
    return f"{latents} latent" + ("s" if latents > 1 else "")
