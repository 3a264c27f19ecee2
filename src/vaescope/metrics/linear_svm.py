"""Linear support vector machines of a single feature, solved exactly by Newton's method on sorted values.

A machine minimises (w^2 + b^2)/2 + C_k sum over its class of max(0, 1 - wx - b)^2 + C sum over the rest of
max(0, 1 + wx + b)^2, the problem of LIBLINEAR. In order of x the items that add to a sum lie together, so sums are
differences of cumulative ones and a Newton step does not visit items.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

MAX_NEWTON_STEPS = 100  # about ten are needed
MAX_HALVINGS = 30
MIN_DECREASE = 1e-10

Values = Float[np.ndarray, "items"]
Labels = Int[np.ndarray, "items"]
PerMachine = Float[np.ndarray, "machines"]
Positions = Int[np.ndarray, "machines"]
# Number, sum and sum of squares of some values, for each machine.
PowerSums = Float[np.ndarray, "powers machines"]


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
        self.all_sums, self.sums_by_class = _cumulative(self.values), _cumulative(self.values[by_class])

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
        weight_slope, bias_slope = weight, bias
        for cost, (number, first, second), offset in ((self.cost, own, bias - 1), (self.rest_cost, rest, bias + 1)):
            loss = loss + cost * (offset**2 * number + 2 * offset * weight * first + weight**2 * second)
            weight_slope = weight_slope + 2 * cost * (offset * first + weight * second)
            bias_slope = bias_slope + 2 * cost * (offset * number + weight * first)
        number, first, second = 2 * (self.cost * own + self.rest_cost * rest)
        a, b, c = 1 + second, first, 1 + number  # the Hessian is [[a, b], [b, c]]
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
        own = self._class_sums(np.where(up, 0, above), np.where(up, below, self.items))
        start, stop = np.where(up, above, 0), np.where(up, self.items, below)
        return own, self.all_sums[:, stop] - self.all_sums[:, start] - self._class_sums(start, stop)

    def _class_sums(self, start: Positions, stop: Positions) -> PowerSums:
        first, last = (np.searchsorted(self.keys, self.positive * (self.items + 1) + end) for end in (start, stop))
        return np.asarray(self.sums_by_class[:, last] - self.sums_by_class[:, first])


def _cumulative(values: Values) -> Float[np.ndarray, "sums more"]:
    table = np.zeros((3, len(values) + 1))
    for row, power in zip(table, (np.ones_like(values), values, values**2), strict=True):
        np.cumsum(power, out=row[1:])
    return table
