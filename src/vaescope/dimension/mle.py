"""Maximum likelihood estimates of the intrinsic dimension (Levina and Bickel, 2004; Bonheme, section 8.2.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import finite_number, proper_share, random_seed, whole_number
from vaescope.dimension.neighbour_distances import PointsLike, neighbours
from vaescope.errors import ConfigurationError, DataError, unknown_name
from vaescope.notebook import NotebookResult
from vaescope.numerics.neighbours import Neighbours
from vaescope.tables import Row

MACKAY_GHAHRAMANI, LEVINA_BICKEL = "mackay-ghahramani", "levina-bickel"
# Averaging -> what is subtracted from k in the divisor, as in the thesis' code and in its text (eq. 8.2), so that
# estimates compare with its tables. For evenly spread points a sum of k - 1 log ratios has the mean (k - 1) / d, and
# its inverse the mean d / (k - 2): means of inverses are unbiased with k - 1, and means of estimates with k - 2. Each
# default is the other one, too low or too high by (k - 1) / (k - 2).
CORRECTIONS = {MACKAY_GHAHRAMANI: 2, LEVINA_BICKEL: 1}
DEFAULT_KS = (3, 5, 10, 20)
TOLERANCE = 0.1
MAX_GROUPS = 1000  # of items; with more, intervals are hardly steadier and take longer
MIN_LOG_RATIO = 1e-9  # mean log ratio of distances; smaller ones are rounding errors


@dataclass(frozen=True)
class MLE(NotebookResult):
    """A maximum likelihood estimate of the dimension.

    Attributes:
        dimension: The estimate.
        interval: Its confidence interval.
        k: The number of neighbours.
        averaging: How the estimates of the items are averaged.
        correction: What is subtracted from k in the divisor.
        items: The number of distinct items.
        duplicates: The number of duplicates that were removed.
    """

    dimension: float
    interval: tuple[float, float]
    k: int
    averaging: str
    correction: int
    items: int
    duplicates: int

    def rows(self) -> list[Row]:
        """One row."""
        row = {"k": self.k, "dimension": self.dimension, "low": self.interval[0], "high": self.interval[1]}
        return [row | {name: getattr(self, name) for name in ("averaging", "correction", "items", "duplicates")}]

    def summary(self) -> str:
        """The estimate, its interval and its settings."""
        low, high = self.interval
        return (
            f"intrinsic dimension {self.dimension:.2f}, between {low:.2f} and {high:.2f} (MLE, {self.averaging}, "
            f"k = {self.k}, divisor k - {self.correction}, {self.items} items, {self.duplicates} duplicates removed)"
        )


@dataclass(frozen=True)
class MLESweep(NotebookResult):
    """Estimates by increasing k, and the successive ks whose estimates agree within `tolerance`."""

    estimates: tuple[MLE, ...]
    stable: tuple[int, ...]
    tolerance: float

    @property
    def best(self) -> MLE | None:
        """The estimate with the largest stable k, which varies least; None if no two ks agree."""
        return next((one for one in self.estimates if self.stable and one.k == self.stable[-1]), None)

    def rows(self) -> list[Row]:
        """One row for each k."""
        return [{**one.rows()[0], "stable": one.k in self.stable} for one in self.estimates]

    def summary(self) -> str:
        """The best estimate, or that no estimate is stable."""
        ks = ", ".join(str(one.k) for one in self.estimates)
        if self.best is None:
            return f"no stable intrinsic dimension: no two successive k of {ks} agree within {self.tolerance:.0%}"
        return f"{self.best.summary()}, stable for k = {', '.join(str(k) for k in self.stable)} of {ks}"


@dataclass(frozen=True)
class Subsets:
    """Confidence intervals of averages over items, from averages over random subsets of the items.

    Attributes:
        share: The share of the items in each subset.
        count: The number of subsets.
        confidence: The confidence level of the interval.
        seed: Random seed of the subsets.
    """

    share: float = 0.8
    count: int = 200
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        proper_share("share", self.share)
        proper_share("confidence", self.confidence)
        whole_number("subsamples", self.count, 1)
        random_seed(self.seed)

    def bounds(
        self, values: Float[Tensor, "rows items"], averaged: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "bounds rows"]:
        """The lower and the upper end of the interval of each row.

        Many items are first put into random groups of equal size, of which subsets are drawn: together they hold a
        random subset of the items. Deviations of subsets are scaled to those of all items: the mean of m of n items,
        drawn without replacement, has variance proportional to (1 - m / n) / m, that of a sample of n items to 1 / n.
        Logarithms are scaled, so that no bound falls below 0.

        Args:
            values: What is averaged over the items.
            averaged: Turns means of the rows into estimates, which are positive.
        """
        generator = np.random.default_rng(self.seed)
        rows, items = values.shape
        groups = min(items, MAX_GROUPS)
        place = torch.from_numpy(generator.permutation(items) % groups)
        counts = torch.bincount(place, minlength=groups).double()
        sums = values.new_zeros(rows, groups).index_add_(1, place, values)
        size = min(max(round(self.share * groups), 1), groups - 1)
        keys = generator.random((self.count, groups))
        chosen = torch.from_numpy(keys <= np.partition(keys, size - 1)[:, size - 1 : size]).to(counts)
        # Row by row: products with several rows at once would round differently than with one.
        means = torch.stack([chosen @ row for row in sums], 1) / (chosen @ counts)[:, None]
        whole = averaged(values.mean(1))
        scaled = whole * (averaged(means) / whole) ** math.sqrt(size / (groups - size))
        tails = torch.tensor([(1 - self.confidence) / 2, (1 + self.confidence) / 2], dtype=torch.float64)
        # The nearest, not an interpolation: between infinite estimates an interpolation would be NaN.
        return torch.quantile(scaled, tails, dim=0, interpolation="nearest")


def mle(
    x: PointsLike,
    k: int = 20,
    averaging: str = MACKAY_GHAHRAMANI,
    *,
    correction: int | None = None,
    share: float = Subsets.share,
    subsamples: int = Subsets.count,
    confidence: float = Subsets.confidence,
    seed: int = Subsets.seed,
) -> MLE:
    """Maximum likelihood estimate of the intrinsic dimension from distances to the `k` nearest neighbours.

    The interval shows how the estimate varies with the items, not the bias due to k or curvature. It comes from
    estimates over random subsets of the items, whose neighbours are searched among all items.

    Args:
        x: As for `neighbours`, whose result serves several estimates with one search. Duplicates are removed first.
        k: The number of neighbours.
        averaging: "levina-bickel" averages the estimates of the items (eq. 8.2, 8.3); "mackay-ghahramani" (2005)
            averages their inverses.
        correction: What is subtracted from k in the divisor. Default: 1 for "levina-bickel", as in the thesis' text,
            and 2 for "mackay-ghahramani", as in its code. For evenly spread points the opposite choice is unbiased:
            the defaults are too high and too low by the factor (k - 1) / (k - 2), 2 for k = 3 and 1.06 for k = 20.
        share: The share of the items in each subset.
        subsamples: The number of subsets.
        confidence: The confidence level of the interval.
        seed: Random seed of the subsets.
    """
    average, subsets = Average.named(averaging, correction), Subsets(share, subsamples, confidence, seed)
    k = average.checked_k("k", k)
    return estimates(neighbours(x, k), [(average, k)], subsets)[0]


def mle_sweep(
    x: PointsLike,
    ks: Sequence[int] = DEFAULT_KS,
    averaging: str = MACKAY_GHAHRAMANI,
    *,
    correction: int | None = None,
    tolerance: float = TOLERANCE,
    share: float = Subsets.share,
    subsamples: int = Subsets.count,
    confidence: float = Subsets.confidence,
    seed: int = Subsets.seed,
) -> MLESweep:
    """Estimates for several numbers of neighbours from one search, and the range of k in which they are stable.

    The thesis chooses the estimate that is "stable for the largest number of k values" by eye (section 8.2.4, after
    Karbauskaite et al., 2011; table D.4 for `ks`). Here the stable ks are the longest sequence of successive ks whose
    estimates differ by at most `tolerance` of the smallest; of equally long sequences, the one that differs least.

    Args:
        ks: At least two numbers of neighbours.
        tolerance: The largest relative difference of stable estimates.
        x, averaging, correction, share, subsamples, confidence, seed: As for `mle`.
    """
    average, subsets = Average.named(averaging, correction), Subsets(share, subsamples, confidence, seed)
    tolerance = finite_number("tolerance", tolerance, at_least=0)
    numbers = distinct_ks(ks, average)
    return sweep(estimates(neighbours(x, numbers[-1]), [(average, k) for k in numbers], subsets), tolerance)


@dataclass(frozen=True)
class Average:
    """How the estimates of the items are averaged, and what is subtracted from k in the divisor."""

    name: str
    correction: int

    @classmethod
    def named(cls, name: str, correction: int | None = None) -> Average:
        """The averaging of this name; default correction: that of the thesis."""
        if name not in CORRECTIONS:
            raise unknown_name("averaging", name, CORRECTIONS)
        return cls(name, CORRECTIONS[name] if correction is None else whole_number("correction", correction, 1, 2))

    def checked_k(self, name: str, k: object) -> int:
        """A number of neighbours that leaves a divisor above 0, or an error that names it."""
        return whole_number(name, k, self.correction + 1)

    def inverses(self, near: Neighbours, k: int) -> Float[Tensor, "items"]:
        """1 / d of each item (eq. 8.2); 0 for items with equally distant neighbours."""
        logarithms = near.distances[:, :k].log()
        found = (logarithms[:, -1:] - logarithms[:, :-1]).sum(1) / (k - self.correction)
        return torch.where(found < MIN_LOG_RATIO, 0.0, found)

    def values(self, near: Neighbours, k: int) -> Float[Tensor, "items"]:
        """What is averaged over the items: the inverses or the estimates; an error if the average is infinite."""
        inverses = self.inverses(near, k)
        flat, inverted = int((inverses == 0).sum()), self.name == MACKAY_GHAHRAMANI
        # One infinite estimate makes the mean of estimates infinite; its inverse, 0, does no harm.
        if flat > (near.items - 1 if inverted else 0):
            raise DataError(
                f"x must have neighbours at different distances, but the {k} nearest neighbours of {flat} of "
                f"{near.items} items are equally distant, which makes the dimension infinite. Raise k"
                f"{'' if inverted else f' or use averaging {MACKAY_GHAHRAMANI!r}'}."
            )
        return inverses if inverted else 1 / inverses


def estimates(near: Neighbours, settings: Sequence[tuple[Average, int]], subsets: Subsets) -> tuple[MLE, ...]:
    """The estimate for each averaging and k; all intervals use the same subsets."""
    # On the CPU, where sums have the same order each time.
    values = torch.stack([average.values(near, k) for average, k in settings]).cpu()
    inverted = torch.tensor([average.name == MACKAY_GHAHRAMANI for average, _ in settings])

    def averaged(means: Float[Tensor, "*subsets settings"]) -> Float[Tensor, "*subsets settings"]:
        return torch.where(inverted, 1 / means, means)

    dimensions, bounds = averaged(values.mean(1)).tolist(), subsets.bounds(values, averaged).tolist()
    return tuple(
        MLE(dimension, (low, high), k, average.name, average.correction, near.items, near.duplicates)
        for (average, k), dimension, low, high in zip(settings, dimensions, *bounds, strict=True)
    )


def distinct_ks(ks: Sequence[int], average: Average) -> list[int]:
    """At least two different numbers of neighbours in increasing order, or an error."""
    numbers = sorted({average.checked_k("each of ks", k) for k in ks})
    if len(numbers) < 2:
        raise ConfigurationError(f"ks must hold at least two different numbers, got {tuple(ks)!r}.")
    return numbers


def sweep(found: tuple[MLE, ...], tolerance: float) -> MLESweep:
    """Find the stable ks among estimates by increasing k."""
    runs = []
    for start in range(len(found)):
        for stop in range(start + 2, len(found) + 1):
            dimensions = [one.dimension for one in found[start:stop]]
            spread = max(dimensions) / min(dimensions) - 1
            if spread <= tolerance:
                runs.append((start - stop, spread, tuple(one.k for one in found[start:stop])))
    return MLESweep(found, min(runs, default=(0, 0.0, ()))[-1], tolerance)
