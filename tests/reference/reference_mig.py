"""Mutual information gaps from their definitions, one item at a time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np


def binned(values: Sequence[float], bins: int) -> list[int]:
    """The bin of each value, as numpy.histogram divides the range."""
    edges = np.histogram(values, bins)[1]
    found = []
    for value in values:
        place = 0
        while place < bins - 1 and value >= edges[place + 1]:
            place += 1
        found.append(place)
    return found


def information(one: Sequence[int], other: Sequence[int]) -> float:
    """sum over pairs of p(a, b) log(p(a, b) / (p(a) p(b)))."""
    items = len(one)
    first, second, both = Counter(one), Counter(other), Counter(zip(one, other, strict=True))
    total = 0.0
    for (a, b), count in both.items():
        total += count / items * math.log(count * items / (first[a] * second[b]))
    return total


def informations(codes: np.ndarray, factors: np.ndarray, bins: int = 20) -> list[list[float]]:
    """One row for each latent, one column for each factor of whole numbers."""
    columns = [factors[:, place].tolist() for place in range(factors.shape[1])]
    rows = [binned(codes[:, place].tolist(), bins) for place in range(codes.shape[1])]
    return [[information(row, column) for column in columns] for row in rows]


def gap(values: Sequence[float]) -> float:
    """The largest less the second largest."""
    ordered = sorted(values)
    return ordered[-1] - ordered[-2]


def mig(codes: np.ndarray, factors: np.ndarray, bins: int = 20) -> float:
    """The mean over factors of the gap between latents, over the factor's entropy."""
    matrix = informations(codes, factors, bins)
    total = 0.0
    for place in range(factors.shape[1]):
        column = factors[:, place].tolist()
        total += gap([row[place] for row in matrix]) / information(column, column)
    return total / factors.shape[1]


def mig_sup(codes: np.ndarray, factors: np.ndarray, bins: int = 20) -> float:
    """The mean over latents of the gap between factors, each over its entropy."""
    columns = [factors[:, place].tolist() for place in range(factors.shape[1])]
    entropies = [information(column, column) for column in columns]
    matrix = informations(codes, factors, bins)
    gaps = [gap([value / own for value, own in zip(row, entropies, strict=True)]) for row in matrix]
    return sum(gaps) / len(gaps)
