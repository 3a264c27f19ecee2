"""All estimates of the intrinsic dimension from one search for neighbours: both averagings at each k, and TwoNN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from vaescope.checks import finite_number, proper_share
from vaescope.dimension.mle import (
    DEFAULT_KS,
    LEVINA_BICKEL,
    MACKAY_GHAHRAMANI,
    MLE,
    TOLERANCE,
    Average,
    MLESweep,
    Subsets,
    distinct_ks,
    estimates,
    sweep,
)
from vaescope.dimension.neighbour_distances import PointsLike, neighbours
from vaescope.dimension.twonn import DEFAULT_ANCHOR, TwoNN, twonn
from vaescope.notebook import NotebookResult
from vaescope.tables import Row


@dataclass(frozen=True)
class Estimate(NotebookResult):
    """All estimates of the dimension of one data set.

    Attributes:
        mackay_ghahramani: MLE that averages inverses, for each k.
        levina_bickel: MLE that averages estimates, for each k at which all estimates are finite.
        infinite: The ks at which some items have equally distant neighbours and so infinite estimates.
        twonn: The TwoNN estimate.
    """

    mackay_ghahramani: MLESweep
    levina_bickel: MLESweep
    infinite: tuple[int, ...]
    twonn: TwoNN

    @property
    def chosen(self) -> MLE:
        """The average of inverses at the largest stable k, or at the largest k if none is stable."""
        return self.mackay_ghahramani.best or self.mackay_ghahramani.estimates[-1]

    @property
    def dimension(self) -> float:
        """The chosen estimate."""
        return self.chosen.dimension

    @property
    def latents_to_start_with(self) -> int:
        """The number of latents at which to start a search: the rounded dimension, at least 1."""
        return max(1, round(self.dimension))

    def rows(self) -> list[Row]:
        """One row for each averaging and k, and one for TwoNN, with the same columns."""
        swept = [*self.mackay_ghahramani.rows(), *self.levina_bickel.rows()]
        columns = ("averaging", "k", "dimension", "low", "high", "stable")
        rows = [{"estimator": "mle", **{name: row[name] for name in columns}} for row in swept]
        last = {"averaging": None, "k": 2, "dimension": self.twonn.dimension, "low": None, "high": None, "stable": None}
        return [*rows, {"estimator": "twonn", **last}]

    def summary(self) -> str:
        """The dimension, its stability, and the number of latents to start with."""
        low, high = self.chosen.interval
        stable = self.mackay_ghahramani.stable
        agreed = f"stable for k = {', '.join(map(str, stable))}" if stable else "no k is stable"
        other = {one.k: f"{one.dimension:.2f}" for one in self.levina_bickel.estimates}.get(self.chosen.k, "infinite")
        return (
            f"intrinsic dimension {self.dimension:.2f}, between {low:.2f} and {high:.2f} (MLE, k = {self.chosen.k}, "
            f"{agreed}; {LEVINA_BICKEL} {other}, TwoNN {self.twonn.dimension:.2f}; {self.chosen.items} items, "
            f"{self.chosen.duplicates} duplicates removed): start with {self.latents_to_start_with} latents"
        )


def estimate(
    x: PointsLike,
    ks: Sequence[int] = DEFAULT_KS,
    *,
    tolerance: float = TOLERANCE,
    anchor: float = DEFAULT_ANCHOR,
    share: float = Subsets.share,
    subsamples: int = Subsets.count,
    confidence: float = Subsets.confidence,
    seed: int = Subsets.seed,
    device: torch.device | str | None = None,
) -> Estimate:
    """Estimate the intrinsic dimension by `mle_sweep` with both averagings and by `twonn`, from one search.

    Items with discrete values, such as binary images, often have equally distant neighbours at small k and so an
    infinite estimate; "levina-bickel" is skipped at those ks.

    Args:
        device: Where to search for neighbours. Default: the device of `x`.
        x, ks, tolerance, anchor, share, subsamples, confidence, seed: As for `mle_sweep` and `twonn`.
    """
    tolerance, anchor = finite_number("tolerance", tolerance, at_least=0), proper_share("anchor", anchor)
    subsets = Subsets(share, subsamples, confidence, seed)
    inverses, direct = Average.named(MACKAY_GHAHRAMANI), Average.named(LEVINA_BICKEL)
    numbers = distinct_ks(ks, inverses)
    near = neighbours(x, numbers[-1], device)
    finite = [k for k in numbers if bool((direct.inverses(near, k) > 0).all())]
    found = estimates(near, [(inverses, k) for k in numbers] + [(direct, k) for k in finite], subsets)
    return Estimate(
        sweep(found[: len(numbers)], tolerance),
        sweep(found[len(numbers) :], tolerance),
        tuple(k for k in numbers if k not in finite),
        twonn(near, anchor),
    )
