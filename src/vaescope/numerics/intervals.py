"""Confidence intervals of means."""

from __future__ import annotations

import math

CONFIDENCE = 0.95


def student_interval(mean: float, sd: float, count: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Student's interval of a mean over `count` values with the sample standard deviation `sd`."""
    from scipy.stats import t

    margin = float(t.ppf((1 + confidence) / 2, count - 1)) * sd / math.sqrt(count)
    return mean - margin, mean + margin
