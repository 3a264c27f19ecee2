"""Downsampling of lines: a page stays small, and every extreme stays visible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

import numpy as np

from vaescope.reporting.style import round_value
from vaescope.runs.probes import History

MAX_POINTS = 500  # per line
TRAIN, TEST = "train", "test"
SPLIT_NAMES = {TRAIN: "training items", TEST: "held-out items"}


class Series(NamedTuple):
    """The points of one line."""

    steps: list[int]
    values: list[float]


def series(history: History, split: str, name: str, max_points: int = MAX_POINTS) -> Series:
    """The finite values of one term on one split, downsampled."""
    rows = [row for row in history if row["split"] == split and is_finite(row.get(name))]
    kept = [rows[place] for place in downsample([row[name] for row in rows], max_points=max_points)]
    return Series([row["step"] for row in kept], [round_value(row[name]) for row in kept])


def downsample(*columns: Sequence[float], max_points: int = MAX_POINTS) -> list[int]:
    """Indices of at most `max_points` rows: the first, the last, and the extremes of each column between.

    The extremes are those of equal intervals.
    """
    count = len(columns[0])
    if count <= max_points:
        return list(range(count))
    kept = {0, count - 1}
    for array in map(np.asarray, columns):
        for interval in np.array_split(np.arange(1, count - 1), (max_points // len(columns) - 2) // 2):
            kept |= {int(interval[array[interval].argmin()]), int(interval[array[interval].argmax()])}
    return sorted(kept)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number, finite or not; booleans are not numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_finite(value: object) -> TypeGuard[float]:
    """Whether a value is a finite number."""
    return is_number(value) and math.isfinite(value)
