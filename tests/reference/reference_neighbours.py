"""The nearest-neighbour score of Rolinek et al. (2019) from its definition, one test item at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence


def nearest(learned: Sequence[float], value: float, count: int) -> list[int]:
    """The indices of the nearest, in any order."""
    return sorted(range(len(learned)), key=lambda place: abs(learned[place] - value))[:count]


def predictability(
    learned: Sequence[float],
    tested: Sequence[float],
    known: Sequence[float],
    true: Sequence[float],
    discrete: bool,
    count: int = 5,
) -> float:
    """A of one latent and one factor."""
    guesses = []
    for value in tested:
        near = [known[place] for place in nearest(learned, value, count)]
        guesses.append(max(sorted(set(near)), key=near.count) if discrete else sum(near) / count)
    if discrete:
        return sum(guess == own for guess, own in zip(guesses, true, strict=True)) / len(true)
    error = math.sqrt(sum((guess - own) ** 2 for guess, own in zip(guesses, true, strict=True)) / len(true))
    return max(0.0, deviation(true) - error)


def deviation(values: Sequence[float]) -> float:
    """The standard deviation."""
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
