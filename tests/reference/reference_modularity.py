"""Modularity and the area under a ROC curve from their definitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reference.reference_mig import informations


def modularity(codes: np.ndarray, factors: np.ndarray, bins: int = 20) -> tuple[float, int]:
    """The mean over informative latents (Ridgeway and Mozer, 2018, eq. 2), and how many do not."""
    scores, silent = [], 0
    for row in informations(codes, factors, bins):
        best = max(range(len(row)), key=lambda place: row[place])
        if row[best] <= 0:
            silent += 1
            continue
        template = [row[best] if place == best else 0.0 for place in range(len(row))]
        deviation = sum((value - own) ** 2 for value, own in zip(row, template, strict=True))
        scores.append(1 - deviation / (row[best] ** 2 * (len(row) - 1)))
    return sum(scores) / len(scores), silent


def area(scores: Sequence[float], positive: Sequence[bool]) -> float:
    """The share of pairs (an example, another) in which the example scores higher; a tie counts half."""
    ones = [score for score, own in zip(scores, positive, strict=True) if own]
    rest = [score for score, own in zip(scores, positive, strict=True) if not own]
    return sum((one > other) + (one == other) / 2 for one in ones for other in rest) / (len(ones) * len(rest))
