"""Points of lines: the finite values of a history, downsampled so that a page stays small and every extreme stays in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vaescope.reporting.style import round_value

MAX_POINTS = 500  # points of a line
TRAIN, TEST = "train", "test"
SPLIT_NAMES = {TRAIN: "training items", TEST: "held-out items"}

History = Sequence[Mapping[str, Any]]


def series(history: History, split: str, name: str, most: int = MAX_POINTS) -> tuple[list[int], list[float]]:
    """Steps and finite values of one term on one split, downsampled."""
    found = [
        (row["step"], round_value(row[name])) for row in history if row["split"] == split and is_finite(row.get(name))
    ]
    kept = [found[place] for place in downsample([value for _, value in found], most)]
    return [step for step, _ in kept], [value for _, value in kept]


def downsample(values: Sequence[float], most: int = MAX_POINTS) -> list[int]:
    """Places of at most `most` values: the first, the last, the least and the greatest of each of equal stretches."""
    if len(values) <= most:
        return list(range(len(values)))
    array, kept = np.asarray(values), {0, len(values) - 1}
    for stretch in np.array_split(np.arange(1, len(values) - 1), (most - 2) // 2):
        kept |= {int(stretch[array[stretch].argmin()]), int(stretch[array[stretch].argmax()])}
    return sorted(kept)


def is_number(value: Any) -> bool:
    """Whether it is a number, finite or not; truth values are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Whether it is a finite number."""
    return is_number(value) and math.isfinite(value)
