"""Linear support vector machines of a single feature, solved exactly by Newton's method on sorted values.

A machine minimises (w^2 + b^2)/2 + C_k sum over its class of max(0, 1 - wx - b)^2 + C sum over the rest of
max(0, 1 + wx + b)^2, the problem of LIBLINEAR. In order of x the items that add to a sum lie together, so sums are
differences of cumulative ones and a Newton step does not visit items.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

MAX_NEWTON_STEPS = 100  # about ten are needed
MAX_HALVINGS = 30
MIN_DECREASE = 1e-10

Values = Float[np.ndarray, "items"]
Labels = Int[np.ndarray, "items"]
PerMachine = Float[np.ndarray, "machines"]
Positions = Int[np.ndarray, "machines"]


def classify(values: Values, labels: Labels, test: Values, *, cost: float) -> Labels:
    """The class that balanced one-vs-rest machines, trained on values and labels, predict for each test value."""
    present, numbers, counts = np.unique(labels, return_inverse=True, return_counts=True)
    balanced = cost * len(labels) / (len(present) * counts)
    if len(present) == 2:
        weight, bias = LinearSVMs(values, numbers, balanced[1:], balanced[:1], np.array([1])).solve()
        return np.asarray(present[(weight * test + bias > 0).astype(np.int64)])
    # LIBLINEAR balances the class of a machine, but not the rest.
    rest = np.full(len(present), cost)
    weight, bias = LinearSVMs(values, numbers, balanced, rest, np.arange(len(present))).solve()
    return np.asarray(present[(test[:, None] * weight + bias).argmax(1)])


@dataclass(frozen=True)
class PowerSums:
    """Number, sum and sum of squares of some values, for each machine."""

    number: PerMachine
    first: PerMachine
    second: PerMachine

    def __sub__(self, other: PowerSums) -> PowerSums:
        return PowerSums(self.number - other.number, self.first - other.first, self.second - other.second)

    def squares(self, offset: PerMachine, slope: PerMachine) -> PerMachine:
        """The sum of (offset + slope * value)^2."""
        return np.asarray(offset**2 * self.number + 2 * offset * slope * self.first + slope**2 * self.second)


class LinearSVMs:
    """One machine for each class in `positive`, against all other items.

    Args:
        values: The feature of each item.
        numbers: The class of each item.
        cost: The cost of errors on a machine's class, one for each machine.
        rest_cost: The cost of errors on all other items, one for each machine.
        positive: The class of each machine.
    """

    def __init__(
        self, values: Values, numbers: Labels, cost: PerMachine, rest_cost: PerMachine, positive: Positions
    ) -> None:
        order = np.argsort(values, kind="stable")
        self.values, self.cost, self.rest_cost, self.positive = values[order], cost, rest_cost, positive
        by_class = np.argsort(numbers[order], kind="stable")
        self.items = len(values)
        self.keys = numbers[order][by_class] * (self.items + 1) + by_class
        self.all_sums, self.class_sums = _cumulative(self.values), _cumulative(self.values[by_class])

    def solve(self) -> tuple[PerMachine, PerMachine]:
        """The weight and the bias of each machine, by Newton's method with steps halved until the loss decreases."""
        weight = np.zeros(len(self.positive))
        bias = np.zeros(len(self.positive))
        for _ in range(MAX_NEWTON_STEPS):
            loss, weight_step, bias_step, decrease = self._newton(weight, bias)
            if (decrease <= MIN_DECREASE).all():
                break
            share = np.ones(len(weight))
            for _ in range(MAX_HALVINGS):
                worse = self._newton(weight + share * weight_step, bias + share * bias_step)[0] > loss
                if not worse.any():
                    break
                share[worse] /= 2
            share[worse] = 0  # only rounding is left
            weight, bias = weight + share * weight_step, bias + share * bias_step
            if not share.any():
                break
        return weight, bias

    def _newton(self, weight: PerMachine, bias: PerMachine) -> tuple[PerMachine, PerMachine, PerMachine, PerMachine]:
        """The loss, the Newton step in weight and bias, and twice the decrease that it promises."""
        own, rest = self._violators(weight, bias)
        loss = (weight**2 + bias**2) / 2
        loss = loss + self.cost * own.squares(bias - 1, weight) + self.rest_cost * rest.squares(bias + 1, weight)
        weight_slope, bias_slope = weight, bias
        for cost, sums, offset in ((self.cost, own, bias - 1), (self.rest_cost, rest, bias + 1)):
            weight_slope = weight_slope + 2 * cost * (offset * sums.first + weight * sums.second)
            bias_slope = bias_slope + 2 * cost * (offset * sums.number + weight * sums.first)
        a = 1 + 2 * (self.cost * own.second + self.rest_cost * rest.second)
        b = 2 * (self.cost * own.first + self.rest_cost * rest.first)
        c = 1 + 2 * (self.cost * own.number + self.rest_cost * rest.number)
        determinant = a * c - b * b
        weight_step = (b * bias_slope - c * weight_slope) / determinant
        bias_step = (b * weight_slope - a * bias_slope) / determinant
        return loss, weight_step, bias_step, -(weight_step * weight_slope + bias_step * bias_slope)

    def _violators(self, weight: PerMachine, bias: PerMachine) -> tuple[PowerSums, PowerSums]:
        """Sums over a class's items with wx + b below 1, and over the rest with wx + b above -1."""
        up = weight >= 0
        with np.errstate(divide="ignore", invalid="ignore"):
            high, low = (1 - bias) / weight, (-1 - bias) / weight
        below = np.searchsorted(self.values, np.where(up, high, low), "left")
        above = np.searchsorted(self.values, np.where(up, low, high), "right")
        start, stop = np.where(up, 0, above), np.where(up, below, self.items)
        own = self._sums_of_class(start, stop)
        start, stop = np.where(up, above, 0), np.where(up, self.items, below)
        return own, _sums_between(self.all_sums, start, stop) - self._sums_of_class(start, stop)

    def _sums_of_class(self, start: Positions, stop: Positions) -> PowerSums:
        first, last = (
            np.searchsorted(self.keys, self.positive * (self.items + 1) + place, "left") for place in (start, stop)
        )
        return _sums_between(self.class_sums, first, last)


def _cumulative(values: Values) -> Float[np.ndarray, "sums more"]:
    table = np.zeros((3, len(values) + 1))
    for row, power in zip(table, (np.ones_like(values), values, values**2), strict=True):
        np.cumsum(power, out=row[1:])
    return table


def _sums_between(table: Float[np.ndarray, "sums more"], start: Positions, stop: Positions) -> PowerSums:
    return PowerSums(*(table[:, stop] - table[:, start]))
