"""Confidence intervals of means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

CONFIDENCE = 0.95


def student_interval(values: Sequence[int | float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Student's interval of the mean of at least two values: mean -+ t sd / sqrt(n), with sd over n - 1."""
    from scipy.stats import t

    mean, count = fmean(values), len(values)
    half_width = float(t.ppf((1 + confidence) / 2, count - 1)) * stdev(values) / math.sqrt(count)
    return mean - half_width, mean + half_width
