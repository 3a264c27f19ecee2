"""The course of a training: whether its loss still falls at the end, has levelled off, or rises."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from vaescope.numerics.polarised import MIN_STEPS
from vaescope.objectives import Annealed, Objective, ScheduledObjective
from vaescope.runs.probes import History

Trend = Literal["falling", "level", "rising", "unknown"]
FALLING: Final = "falling"
LEVEL: Final = "level"
RISING: Final = "rising"
UNKNOWN: Final = "unknown"

LAST_SHARE = 1 / 3  # of training, over which the slope is measured
MIN_POINTS = 4  # in it
MIN_ERRORS = 3  # standard errors by which a slope must differ from 0
MIN_SPREADS = 4  # standard deviations by which the loss must rise above its lowest value
MIN_CHANGE = 0.02  # of the loss; a smaller change over the last part of training is no fall
MIN_RISE = 0.05  # of the loss, above its lowest value
SPLITS = {"test": "held-out loss", "train": "training loss"}


@dataclass(frozen=True)
class Course:
    """How the loss ended.

    Attributes:
        trend: 'falling', 'level', 'rising' or 'unknown'.
        loss: Which loss: 'held-out loss' or 'training loss'.
        change: Its change over the last third of training, in nats.
        lowest, last: Its lowest and its last value, in nats.
        lowest_step: The step of its lowest value.
        overfitted: Whether the held-out loss rises while the training loss does not.
        unsettled: Whether the weights of the loss were still changing at the end, so that losses cannot be compared.
        reason: Why the trend is unknown, as a clause.
    """

    trend: Trend
    loss: str = SPLITS["test"]
    change: float = math.nan
    lowest: float = math.nan
    last: float = math.nan
    lowest_step: int = 0
    overfitted: bool = False
    unsettled: bool = False
    reason: str = ""


def course_of(history: History, objective: Objective | None = None) -> Course:
    """The course of a training, from the losses in its history after the schedules of its objective."""
    last_step = max((row["step"] for row in history), default=0)
    settled = _settled_step(objective)
    if settled >= last_step > 0:
        reason = f"the schedule of the objective ends at step {settled:g}, after training"
        return Course(UNKNOWN, unsettled=True, reason=reason)
    curves = {split: _points(history, split, settled) for split in SPLITS}
    if any(values and not math.isfinite(values[-1]) for _, values in curves.values()):
        return Course(RISING, last=math.inf)
    found = {split: _trend(*curve, last_step, SPLITS[split]) for split, curve in curves.items()}
    test, train = found["test"], found["train"]
    if test.trend == LEVEL and train.trend == FALLING and _is_fall(test.change, test.last):
        # Few evaluations can hide a fall in their noise; the many values of the training loss show that it is none.
        test = replace(test, trend=FALLING)
    chosen = train if test.trend == UNKNOWN else test
    if chosen.trend == LEVEL and last_step < MIN_STEPS:
        return Course(UNKNOWN, reason=f"{last_step} steps are too few to tell the end of learning from a pause")
    if chosen.trend == UNKNOWN:
        return Course(UNKNOWN, reason="there are too few evaluations to tell whether the loss has levelled off")
    if test.trend == RISING and train.trend != RISING:
        return Course(**{**vars(test), "overfitted": True})
    return chosen


def _settled_step(objective: Objective | None) -> float:
    """The step after which the weights of the terms are constant, so that losses can be compared."""
    warm_up = objective.warm_up if isinstance(objective, ScheduledObjective) else 0.0
    annealed = objective.steps if isinstance(objective, Annealed) else 0.0
    return max(float(warm_up), float(annealed))


def _points(history: History, split: str, after: float) -> tuple[list[int], list[float]]:
    rows = [row for row in history if row.get("split") == split and "loss" in row and row["step"] > after]
    return [row["step"] for row in rows], [float(row["loss"]) for row in rows]


def _trend(steps: list[int], values: list[float], last_step: int, loss: str) -> Course:
    """Whether the slope over the last part of training is more than noise, and more than a small part of the loss."""
    begin = last_step * (1 - LAST_SHARE)
    window = [(step, value) for step, value in zip(steps, values, strict=True) if step >= begin]
    if len(window) < MIN_POINTS or not all(map(math.isfinite, values)):
        return Course(UNKNOWN, loss)
    x, y = np.array(window, np.float64).T
    slope, error, spread = _slope(x, y)
    change = slope * (x[-1] - x[0])
    lowest = int(np.argmin(values))
    facts = {"change": change, "lowest": values[lowest], "last": values[-1], "lowest_step": steps[lowest]}
    significant = abs(slope) > MIN_ERRORS * error
    if significant and _is_fall(change, values[-1]):
        return Course(FALLING, loss, **facts)
    rise = float(y.mean()) - values[lowest]
    if rise > max(MIN_RISE * abs(values[lowest]), MIN_SPREADS * spread) and change >= 0:
        return Course(RISING, loss, **facts)
    return Course(LEVEL, loss, **facts)


def _is_fall(change: float, last: float) -> bool:
    return change < 0 and -change >= MIN_CHANGE * abs(last)


def _slope(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """The slope of the least squares line, its standard error, and the standard deviation around the line."""
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    residuals = y - y.mean() - slope * centred
    spread = math.sqrt(float(residuals @ residuals) / (len(x) - 2))
    return slope, spread / math.sqrt(float(centred @ centred)), spread
