"""Maximum likelihood estimates of the intrinsic dimension (Levina and Bickel, 2004; Bonheme, section 8.2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import finite_number, whole_number
from vaescope.dimension.neighbour_distances import neighbours
from vaescope.dimension.subsets import Subsets
from vaescope.errors import ConfigurationError, DataError, unknown_name
from vaescope.notebook import NotebookResult
from vaescope.numerics.neighbours import Neighbours

MACKAY_GHAHRAMANI, LEVINA_BICKEL = "mackay-ghahramani", "levina-bickel"
# What is subtracted from k in the divisor: in the thesis' code, and in its text (eq. 8.2).
CORRECTIONS = {MACKAY_GHAHRAMANI: 2, LEVINA_BICKEL: 1}
KS = (3, 5, 10, 20)
TOLERANCE = 0.1
EQUALLY_FAR = 1e-9  # mean log ratio of distances below which they differ by rounding alone


@dataclass(frozen=True)
class MLE(NotebookResult):
    """The estimate with `k` neighbours over `items` distinct items, and where it may lie: `interval`."""

    dimension: float
    interval: tuple[float, float]
    k: int
    averaging: str
    correction: int
    items: int
    duplicates: int

    def rows(self) -> list[dict[str, Any]]:
        """One row."""
        row = {"k": self.k, "dimension": self.dimension, "low": self.interval[0], "high": self.interval[1]}
        return [row | {name: getattr(self, name) for name in ("averaging", "correction", "items", "duplicates")}]

    def summary(self) -> str:
        """The estimate and what it rests on."""
        low, high = self.interval
        return (
            f"intrinsic dimension {self.dimension:.2f}, between {low:.2f} and {high:.2f} (MLE, {self.averaging}, "
            f"k = {self.k}, divisor k - {self.correction}, {self.items} items, {self.duplicates} duplicates removed)"
        )


@dataclass(frozen=True)
class MLESweep(NotebookResult):
    """An estimate for each k, by increasing k, and the successive ks whose estimates agree within `tolerance`."""

    estimates: tuple[MLE, ...]
    stable: tuple[int, ...]
    tolerance: float

    @property
    def best(self) -> MLE | None:
        """The estimate with the largest of the stable ks, as it varies least; None if no two ks agree."""
        return next((one for one in self.estimates if self.stable and one.k == self.stable[-1]), None)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each k."""
        return [{**one.rows()[0], "stable": one.k in self.stable} for one in self.estimates]

    def summary(self) -> str:
        """The most stable estimate, or that there is none."""
        ks = ", ".join(str(one.k) for one in self.estimates)
        if self.best is None:
            return f"no stable intrinsic dimension: no two successive k of {ks} agree within {self.tolerance:.0%}"
        return f"{self.best.summary()}, stable for k = {', '.join(str(k) for k in self.stable)} of {ks}"


def mle(
    x: Any,
    k: int = 20,
    averaging: str = MACKAY_GHAHRAMANI,
    *,
    correction: int | None = None,
    share: float = Subsets.share,
    subsamples: int = Subsets.count,
    confidence: float = Subsets.confidence,
    seed: int = Subsets.seed,
) -> MLE:
    """The dimension under which the distances to the `k` nearest neighbours are likeliest.

    "levina-bickel" averages the estimates of the items (eq. 8.2, 8.3); "mackay-ghahramani" (2005) averages their
    inverses. The divisor is k - `correction`: by default k - 1 for the first, as in the thesis' text, and k - 2 for
    the second, as in its code. For points spread evenly it is the other way round that has no bias; the defaults are
    too high and too low by the factor (k - 1) / (k - 2), which is 2 for k = 3 and 1.06 for k = 20.

    `x` is an array or tensor of items x anything, a `Dataset`, or what `neighbours` returned, so that one search
    serves several estimates. Duplicates are removed first.

    The interval comes from estimates over random subsets, `share` of the items at which the dimension is measured,
    their neighbours among all; deviations are scaled by sqrt(share / (1 - share)) to those of all items. It tells
    how the estimate varies with the items measured, not how far k or curvature biases it.
    """
    average, subsets = Average.named(averaging, correction), Subsets(share, subsamples, confidence, seed)
    k = average.neighbours("k", k)
    return estimates(neighbours(x, k), [(average, k)], subsets)[0]


def mle_sweep(
    x: Any,
    ks: Sequence[int] = KS,
    averaging: str = MACKAY_GHAHRAMANI,
    *,
    correction: int | None = None,
    tolerance: float = TOLERANCE,
    share: float = Subsets.share,
    subsamples: int = Subsets.count,
    confidence: float = Subsets.confidence,
    seed: int = Subsets.seed,
) -> MLESweep:
    """The estimate for each of `ks`, from one search, and those that are "stable for the largest number of k values".

    So the thesis chooses (section 8.2.4, after Karbauskaite et al., 2011; table D.4 for `ks`), by eye. Here the stable
    ks are the longest row of successive ones whose estimates differ by at most `tolerance` of the smallest, and of
    equally long rows the one that differs least.
    """
    average, subsets = Average.named(averaging, correction), Subsets(share, subsamples, confidence, seed)
    tolerance = finite_number("tolerance", tolerance, at_least=0)
    numbers = several(ks, average)
    return sweep(estimates(neighbours(x, numbers[-1]), [(average, k) for k in numbers], subsets), tolerance)


@dataclass(frozen=True)
class Average:
    """How the items' estimates with k neighbours become one: which mean, and what is subtracted from k."""

    name: str
    correction: int

    @classmethod
    def named(cls, name: str, correction: int | None = None) -> Average:
        """The averaging of that name, with the thesis' correction unless another is given."""
        if name not in CORRECTIONS:
            raise unknown_name("averaging", name, CORRECTIONS)
        return cls(name, CORRECTIONS[name] if correction is None else whole_number("correction", correction, 1, 2))

    def neighbours(self, name: str, k: Any) -> int:
        """A number of neighbours that leaves a divisor above 0, or an error that names it."""
        return whole_number(name, k, self.correction + 1)

    def inverses(self, near: Neighbours, k: int) -> Float[Tensor, "items"]:
        """1 / d of each item (eq. 8.2); 0 where its neighbours are equally far."""
        logarithms = near.distances[:, :k].log()
        found = (logarithms[:, -1:] - logarithms[:, :-1]).sum(1) / (k - self.correction)
        return torch.where(found < EQUALLY_FAR, 0.0, found)

    def values(self, near: Neighbours, k: int) -> Float[Tensor, "items"]:
        """What is averaged over the items: the inverses, or the estimates; an error if that would be infinite."""
        inverses = self.inverses(near, k)
        flat, inverted = int((inverses == 0).sum()), self.name == MACKAY_GHAHRAMANI
        # An infinite estimate rules a mean of estimates; its inverse, 0, is one among others.
        if flat > (near.items - 1 if inverted else 0):
            raise DataError(
                f"x must have neighbours at different distances, but the {k} nearest of {flat} of {near.items} items "
                "are all equally far, so that their dimension is infinite. Raise k"
                f"{'' if inverted else f' or average {MACKAY_GHAHRAMANI}'}."
            )
        return inverses if inverted else 1 / inverses


def estimates(near: Neighbours, settings: Sequence[tuple[Average, int]], subsets: Subsets) -> tuple[MLE, ...]:
    """The estimate for each averaging and k, all of their intervals from the same subsets."""
    values = torch.stack([average.values(near, k) for average, k in settings])
    inverted = torch.tensor([average.name == MACKAY_GHAHRAMANI for average, _ in settings], device=values.device)

    def averaged(means: Float[Tensor, "*subsets settings"]) -> Float[Tensor, "*subsets settings"]:
        return torch.where(inverted, 1 / means, means)

    dimensions, bounds = averaged(values.mean(1)).tolist(), subsets.bounds(values, averaged).tolist()
    return tuple(
        MLE(dimension, (low, high), k, average.name, average.correction, near.items, near.duplicates)
        for (average, k), dimension, low, high in zip(settings, dimensions, *bounds, strict=True)
    )


def several(ks: Sequence[int], average: Average) -> list[int]:
    """At least two different numbers of neighbours, by size, or an error."""
    numbers = sorted({average.neighbours("each of ks", k) for k in ks})
    if len(numbers) < 2:
        raise ConfigurationError(f"ks must hold at least two different numbers, got {tuple(ks)!r}.")
    return numbers


def sweep(found: tuple[MLE, ...], tolerance: float) -> MLESweep:
    """The estimates, by increasing k, with the ks that are stable."""
    runs = []
    for start in range(len(found)):
        for stop in range(start + 2, len(found) + 1):
            dimensions = [one.dimension for one in found[start:stop]]
            spread = max(dimensions) / min(dimensions) - 1
            if spread <= tolerance:
                runs.append((start - stop, spread, tuple(one.k for one in found[start:stop])))
    return MLESweep(found, min(runs, default=(0, 0.0, ()))[-1], tolerance)
