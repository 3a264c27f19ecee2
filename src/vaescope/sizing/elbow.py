"""The elbow check: losses and accuracies of fully trained models of a few sizes (Bonheme, figures 8.5-8)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from vaescope.checks import whole_number
from vaescope.data import DataLike, open_dataset
from vaescope.data.dataset import describe
from vaescope.errors import ConfigurationError, RunError
from vaescope.notebook import NotebookResult
from vaescope.objectives import OBJECTIVES, Beta, Objective
from vaescope.runs import FitOptions, Run, fit_many
from vaescope.sizing.downstream import predict
from vaescope.sizing.store import save_check
from vaescope.training import Member

SIZE_RATIOS = (1 / 4, 1 / 2, 3 / 4, 1, 3 / 2, 2, 3)
ROUNDING = 1e-9  # relative


@dataclass(frozen=True)
class ElbowPoint:
    """One size: held-out losses and accuracies per seed, their means and standard deviations (None for one seed)."""

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
    """The result of an elbow check.

    Attributes:
        chosen: The number of latents to compare with.
        points: Losses and accuracies by ascending size.
        targets: The factors and labels whose mean accuracy the points hold.
        majority: Accuracy of always predicting the most frequent value.
    """

    chosen: int | None
    points: tuple[ElbowPoint, ...]
    targets: tuple[str, ...] = ()
    majority: float | None = None
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def elbow(self) -> int | None:
        """The size at the knee: furthest below the line from the first to the last loss.

        The largest vertical distance is also the largest perpendicular one, whatever the units. None if no size lies
        below both the line and the first loss by more than the spread over seeds.
        """
        first, last = self.points[0], self.points[-1]
        noise = max([point.loss_sd or ROUNDING * abs(point.loss) for point in self.points])
        depths = {0: noise}  # the least depth of a knee
        for point in self.points[1:-1]:
            way = (point.latents - first.latents) / (last.latents - first.latents)
            # A loss that only rises can bend, too, but its bend gains nothing.
            if first.loss - point.loss > noise:
                depths[point.latents] = first.loss + way * (last.loss - first.loss) - point.loss
        return max(depths, key=depths.__getitem__) or None

    @property
    def agrees(self) -> bool | None:
        """Whether the chosen number lies between the neighbours of the elbow; None without either."""
        if self.elbow is None or self.chosen is None:
            return None
        return self._neighbours(self.elbow)[0] <= self.chosen <= self._neighbours(self.elbow)[1]

    def rows(self) -> list[dict[str, Any]]:
        """One row per size."""
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
            ElbowPoint(point["latents"], tuple(point["losses"]), point["accuracies"] and tuple(point["accuracies"]))
            for point in table["points"]
        ]
        return cls(table["chosen"], tuple(points), tuple(table["targets"]), table["majority"], table["data"])

    def summary(self) -> str:
        """One sentence: the elbow and the chosen number, the fall of the loss, the accuracy."""
        return f"{self._verdict()}; {self._fall()}; {self._predicted()}."

    def _neighbours(self, size: int) -> tuple[int, int]:
        """The nearest sizes below and above; the size itself where there is none."""
        sizes = [point.latents for point in self.points]
        below, above = [one for one in sizes if one < size], [one for one in sizes if one > size]
        return max(below, default=size), min(above, default=size)

    def _marked(self) -> tuple[int, ...]:
        """The chosen number, or else the elbow, and its neighbours."""
        mark = self.elbow if self.chosen is None else self.chosen
        return () if mark is None else (*self._neighbours(mark), mark)

    def _verdict(self) -> str:
        if self.elbow is None:
            why = "an elbow needs at least 3 sizes" if len(self.points) < 3 else "the loss has no elbow at these sizes"
            return why if self.chosen is None else f"{why}; {self.chosen} cannot be checked"
        text = f"the elbow is at {_count(self.elbow)}"
        if self.chosen is None or self.chosen == self.elbow:
            return text if self.chosen is None else f"{text}, the chosen number"
        where = "inside" if self.agrees else "outside"
        below, above = self._neighbours(self.elbow)
        return f"{text}; the chosen {self.chosen} is {where} its neighbours, {below} and {above}"

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
            return "no accuracy: the data have no factors or labels that vary"
        shown = {self.points[0].latents, *self._marked(), self.points[-1].latents}
        parts = [f"{point.accuracy:.3g} with {point.latents}" for point in self.points if point.latents in shown]
        what = self.targets[0] if len(self.targets) == 1 else f"{len(self.targets)} targets"
        return f"the accuracy for {what} is {', '.join(parts)} (majority class {self.majority:.3g})"


def elbow(
    data: DataLike,
    sizes: Iterable[int],
    chosen: int | None = None,
    options: FitOptions | None = None,
    *,
    objective: Objective | str | Mapping[str, object] | None = None,
    learning_rate: float = 1e-4,
    seeds: Iterable[int] = (0,),
    items: int = 10_000,
) -> Elbow:
    """Train a model of each size and seed, and find where their losses flatten.

    Finished runs are reused. The result is saved in the folder of the runs.

    Args:
        data: As for `fit`; each factor and label that varies is predicted from the mean representation.
        sizes: Numbers of latents to train; see `default_sizes`.
        chosen: The number of latents to compare with, whether it is among the sizes or not.
        options: How to train, as for `fit`. The loss is that of at most `evaluation_items` held-out items.
        objective: Name, table or instance; default: Beta(1), the ELBO.
        learning_rate: The learning rate.
        seeds: The seeds of each size.
        items: Maximum number of training items for the predictions; half as many held-out items test them.
    """
    options = FitOptions() if options is None else options
    latents, numbers = sorted(_distinct("sizes", sizes, 1)), _distinct("seeds", seeds, 0)
    chosen = None if chosen is None else whole_number("chosen", chosen, 1)
    items = whole_number("items", items, 2)
    if not options.held_out:
        raise ConfigurationError("held_out must be above 0, because the elbow is that of held-out losses; got 0.")
    opened, trained_with = open_dataset(data), Beta() if objective is None else OBJECTIVES.resolve(objective)
    members = [Member(size, trained_with, learning_rate, seed) for size in latents for seed in numbers]
    # A run remembers the name or path of its data, and can be diagnosed without the data at hand.
    runs = fit_many(data if isinstance(data, str | Path) else opened, members, options)
    losses = tuple(_loss(run) for run in runs)
    learning, testing = opened.split(options.held_out, options.split_seed)
    device, progress = options.chosen_device(), options.progress
    predicted = predict(runs, learning.draw(items), testing.draw(items // 2), device=device, progress=progress)
    slices = [slice(first, first + len(numbers)) for first in range(0, len(runs), len(numbers))]
    pairs = zip(latents, slices, strict=True)
    points = tuple(ElbowPoint(size, losses[own], predicted.accuracies[own] or None) for size, own in pairs)
    found = Elbow(chosen, points, predicted.targets, predicted.majority, describe(opened))
    save_check(Path(options.runs), found, [run.id for run in runs])
    return found


def default_sizes(chosen: int, limit: int) -> tuple[int, ...]:
    """Sizes from a quarter to three times the chosen number, up to `limit`: enough to show an elbow."""
    limit = whole_number("limit", limit, 1)
    chosen = whole_number("chosen", chosen, 1, limit)
    return tuple(sorted({min(limit, max(1, round(share * chosen))) for share in SIZE_RATIOS}))


def _distinct(name: str, values: object, least: int) -> list[int]:
    """Whole numbers without repetitions."""
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
            f"the reconstruction loss on held-out items must be finite, got {loss} in run {run.id} with "
            f"{_count(run.configuration.member.latents)}. Lower the learning rate, or check the held-out items."
        )
    return loss


def _count(latents: int) -> str:
    return f"{latents} latent" + ("s" if latents > 1 else "")
