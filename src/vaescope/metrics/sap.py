"""Separated attribute predictability: how much better the best latent predicts a factor (Kumar et al., 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import numpy as np
from jaxtyping import Float, Int

from vaescope.errors import unknown_name
from vaescope.metrics.inputs import Labelled, learned_and_tested
from vaescope.metrics.mcc import absolute_correlations
from vaescope.metrics.score import Common, Measured, Score, evaluate

PROTOCOLS = ("fast", "dlib")
COST = 0.01  # of errors, beside the squared norm of the weights
STEPS = 100  # of Newton's method, which needs about ten
HALVINGS = 30


def sap(codes: Any, factors: Any = None, *, protocol: str = "fast", **common: Unpack[Common]) -> Score:
    """The mean over factors of the gap between the two latents that each predict it best alone.

    A factor of whole numbers is predicted by linear support vector machines, one class against the rest, trained on
    10,000 items; what counts is the accuracy on 5,000 others. For a continuous one it is the squared correlation, over
    all items. Both protocols solve the same problem (cost .01, balanced classes, as in disentanglement_lib): "fast" by
    Newton's method on sums over sorted items, "dlib" by scikit-learn's LinearSVC. A latent alone is compared with a
    constant guess. The matrix has what each latent reaches for each factor.
    """
    if protocol not in PROTOCOLS:
        raise unknown_name("protocol", protocol, PROTOCOLS)
    text = f"linear classifiers of one latent, {protocol} protocol"
    return evaluate("sap", text, partial(_gaps, protocol=protocol), codes, factors, **common)


def gaps(
    matrix: Float[np.ndarray, "latents factors"], constant: Float[np.ndarray, "factors"]
) -> Float[np.ndarray, "factors"]:
    """What the best latent reaches beyond the next, for each factor; one alone, beyond a constant guess."""
    ordered = np.sort(matrix, 0)
    return ordered[-1] - ordered[-2] if len(matrix) > 1 else (matrix[0] - constant).clip(min=0)


def _gaps(data: Labelled, seed: int, protocol: str) -> Measured:
    matrix = absolute_correlations(data.codes, data.factors) ** 2
    constant = np.zeros(len(data.names))
    if any(data.discrete):
        learned, tested = learned_and_tested(data, seed)
        predict = _machines if protocol == "fast" else _library_machines
        for place, factor in enumerate(np.flatnonzero(data.discrete)):
            true = tested.classes[:, place]
            constant[factor] = np.bincount(true).max() / len(true)
            for latent in range(len(matrix)):
                guess = predict(learned.codes[:, latent], learned.classes[:, place], tested.codes[:, latent])
                matrix[latent, factor] = np.mean(guess == true)
    found = gaps(matrix, constant)
    return Measured(float(found.mean()), by_factor=tuple(found.tolist()), matrix=matrix)


def _library_machines(
    values: Float[np.ndarray, "learned"], labels: Int[np.ndarray, "learned"], tested: Float[np.ndarray, "tested"]
) -> Int[np.ndarray, "tested"]:
    from sklearn.svm import LinearSVC

    machine = LinearSVC(C=COST, class_weight="balanced", dual=False)
    return machine.fit(values[:, None], labels).predict(tested[:, None])


def _machines(
    values: Float[np.ndarray, "learned"], labels: Int[np.ndarray, "learned"], tested: Float[np.ndarray, "tested"]
) -> Int[np.ndarray, "tested"]:
    """The class of the machine that is surest of each tested number."""
    present, numbers, counts = np.unique(labels, return_inverse=True, return_counts=True)
    balanced = COST * len(labels) / (len(present) * counts)
    if len(present) == 2:
        weight, bias = _Problems(values, numbers, balanced[1:], balanced[:1], np.array([1])).solve()
        return present[(weight * tested + bias > 0).astype(np.int64)]
    # As LIBLINEAR, which LinearSVC calls, weighs them: the class against which the rest stands, and not the rest.
    rest = np.full(len(present), COST)
    weight, bias = _Problems(values, numbers, balanced, rest, np.arange(len(present))).solve()
    return present[(tested[:, None] * weight + bias).argmax(1)]


@dataclass(frozen=True)
class _Sums:
    """Number, sum and sum of squares of values."""

    number: Float[np.ndarray, "problems"]
    first: Float[np.ndarray, "problems"]
    second: Float[np.ndarray, "problems"]

    def __sub__(self, other: _Sums) -> _Sums:
        return _Sums(self.number - other.number, self.first - other.first, self.second - other.second)

    def squares(self, offset: Float[np.ndarray, "problems"], slope: Float[np.ndarray, "problems"]) -> np.ndarray:
        """The sum of (offset + slope * value)^2."""
        return offset**2 * self.number + 2 * offset * slope * self.first + slope**2 * self.second


class _Problems:
    """Support vector machines of one feature, one for each class of `against` beside all other items.

    Each minimises (w^2 + b^2)/2 + C_k sum over its class of max(0, 1 - wx - b)^2 + C sum over the rest of
    max(0, 1 + wx + b)^2. In order of x the items that add to a sum lie together, so that sums are differences of
    cumulative ones and a step of Newton's method does not visit items.
    """

    def __init__(
        self,
        values: Float[np.ndarray, "items"],
        numbers: Int[np.ndarray, "items"],
        cost: Float[np.ndarray, "problems"],
        rest: Float[np.ndarray, "problems"],
        against: Int[np.ndarray, "problems"],
    ) -> None:
        order = np.argsort(values, kind="stable")
        self.values, self.cost, self.rest, self.against = values[order], cost, rest, against
        by_class = np.argsort(numbers[order], kind="stable")
        self.items = len(values)
        self.keys = numbers[order][by_class] * (self.items + 1) + by_class
        self.all, self.own = _cumulative(self.values), _cumulative(self.values[by_class])

    def solve(self) -> tuple[Float[np.ndarray, "problems"], Float[np.ndarray, "problems"]]:
        """The weight and the bias of each, by Newton's method with steps halved until they descend."""
        weight = np.zeros(len(self.against))
        bias = np.zeros(len(self.against))
        for _ in range(STEPS):
            loss, along_weight, along_bias, steepest = self._newton(weight, bias)
            if (steepest <= 1e-10).all():
                break
            share = np.ones(len(weight))
            for _ in range(HALVINGS):
                worse = self._newton(weight + share * along_weight, bias + share * along_bias)[0] > loss
                if not worse.any():
                    break
                share[worse] /= 2
            share[worse] = 0  # rounding alone is left
            weight, bias = weight + share * along_weight, bias + share * along_bias
            if not share.any():
                break
        return weight, bias

    def _newton(self, weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, ...]:
        """The loss, the step to the minimum of its quadratic, and the largest slope in units of the curvature."""
        own, rest = self._violators(weight, bias)
        loss = (weight**2 + bias**2) / 2
        loss = loss + self.cost * own.squares(bias - 1, weight) + self.rest * rest.squares(bias + 1, weight)
        slope_weight, slope_bias = weight, bias
        sides = ((self.cost, own, bias - 1), (self.rest, rest, bias + 1))
        for cost, sums, offset in sides:
            slope_weight = slope_weight + 2 * cost * (offset * sums.first + weight * sums.second)
            slope_bias = slope_bias + 2 * cost * (offset * sums.number + weight * sums.first)
        a, b, c = (
            start + 2 * (self.cost * getattr(own, name) + self.rest * getattr(rest, name))
            for start, name in ((1, "second"), (0, "first"), (1, "number"))
        )
        determinant = a * c - b * b
        along_weight = (b * slope_bias - c * slope_weight) / determinant
        along_bias = (b * slope_weight - a * slope_bias) / determinant
        return loss, along_weight, along_bias, -(along_weight * slope_weight + along_bias * slope_bias)

    def _violators(self, weight: np.ndarray, bias: np.ndarray) -> tuple[_Sums, _Sums]:
        """Sums over a class's items on the wrong side of 1, and over the rest on the wrong side of -1."""
        up = weight >= 0
        with np.errstate(divide="ignore", invalid="ignore"):
            high, low = (1 - bias) / weight, (-1 - bias) / weight
        below = np.searchsorted(self.values, np.where(up, high, low), "left")
        above = np.searchsorted(self.values, np.where(up, low, high), "right")
        ends = np.where(up, 0, above), np.where(up, below, self.items)
        own = self._of_class(*ends)
        ends = np.where(up, above, 0), np.where(up, self.items, below)
        return own, _between(self.all, *ends) - self._of_class(*ends)

    def _of_class(self, start: np.ndarray, stop: np.ndarray) -> _Sums:
        first, last = (
            np.searchsorted(self.keys, self.against * (self.items + 1) + place, "left") for place in (start, stop)
        )
        return _between(self.own, first, last)


def _cumulative(values: Float[np.ndarray, "items"]) -> Float[np.ndarray, "sums more"]:
    table = np.zeros((3, len(values) + 1))
    for row, power in zip(table, (np.ones_like(values), values, values**2), strict=True):
        np.cumsum(power, out=row[1:])
    return table


def _between(table: Float[np.ndarray, "sums more"], start: np.ndarray, stop: np.ndarray) -> _Sums:
    return _Sums(*(table[:, stop] - table[:, start]))
