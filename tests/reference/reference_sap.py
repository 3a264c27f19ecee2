"""One-dimensional support vector machines and squared correlations from their definitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize


def machine(values: Sequence[float], positive: Sequence[bool], cost: float, rest: float) -> tuple[float, float]:
    """The weight and the bias that minimise (w^2 + b^2)/2 and the squared hinges, by a general method."""

    def loss(place: np.ndarray) -> float:
        weight, bias = place
        total = (weight**2 + bias**2) / 2
        for value, own in zip(values, positive, strict=True):
            side = 1 if own else -1
            total += (cost if own else rest) * max(0.0, 1 - side * (weight * value + bias)) ** 2
        return total

    best = minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-7})
    return float(best.x[0]), float(best.x[1])


def predictions(values: Sequence[float], labels: Sequence[int], tested: Sequence[float], cost: float) -> list[int]:
    """Three classes or more: the class of the greatest decision; its own examples weigh items / (classes count)."""
    classes = sorted(set(labels))
    machines = []
    for label in classes:
        positive = [own == label for own in labels]
        machines.append(machine(values, positive, cost * len(labels) / (len(classes) * sum(positive)), cost))
    found = []
    for value in tested:
        decisions = [weight * value + bias for weight, bias in machines]
        found.append(classes[decisions.index(max(decisions))])
    return found


def squared_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Covariance squared over both variances."""
    mean, mean_other = sum(one) / len(one), sum(other) / len(other)
    covariance = sum((a - mean) * (b - mean_other) for a, b in zip(one, other, strict=True))
    return covariance**2 / (sum((a - mean) ** 2 for a in one) * sum((b - mean_other) ** 2 for b in other))
