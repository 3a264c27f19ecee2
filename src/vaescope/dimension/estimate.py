"""The whole estimate of the intrinsic dimension from one search: both averages at each k, and TwoNN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from vaescope.checks import finite_number, proper_share
from vaescope.dimension.mle import (
    KS,
    LEVINA_BICKEL,
    MACKAY_GHAHRAMANI,
    MLE,
    TOLERANCE,
    Average,
    MLESweep,
    estimates,
    several,
    sweep,
)
from vaescope.dimension.neighbour_distances import neighbours
from vaescope.dimension.subsets import Subsets
from vaescope.dimension.twonn import ANCHOR, TwoNN, twonn
from vaescope.notebook import NotebookResult


@dataclass(frozen=True)
class Estimate(NotebookResult):
    """All estimates of one set; `infinite` are the ks at which equally far neighbours leave no mean of estimates."""

    mackay_ghahramani: MLESweep
    levina_bickel: MLESweep
    infinite: tuple[int, ...]
    twonn: TwoNN

    @property
    def chosen(self) -> MLE:
        """The average of inverses at the largest stable k, or at the largest of all if none is stable."""
        return self.mackay_ghahramani.best or self.mackay_ghahramani.estimates[-1]

    @property
    def dimension(self) -> float:
        """The chosen estimate."""
        return self.chosen.dimension

    @property
    def latents_to_start_with(self) -> int:
        """The dimension as a whole number of latents, at least one, from which to search for the right number."""
        return max(1, round(self.dimension))

    def rows(self) -> list[dict[str, Any]]:
        """One row for each averaging and k, and one for TwoNN, with the same columns."""
        swept = [*self.mackay_ghahramani.rows(), *self.levina_bickel.rows()]
        columns = ("averaging", "k", "dimension", "low", "high", "stable")
        rows = [{"estimator": "mle", **{name: row[name] for name in columns}} for row in swept]
        last = {"averaging": None, "k": 2, "dimension": self.twonn.dimension, "low": None, "high": None, "stable": None}
        return [*rows, {"estimator": "twonn", **last}]

    def summary(self) -> str:
        """The dimension, how far it is agreed on, and where to start."""
        low, high = self.chosen.interval
        stable = self.mackay_ghahramani.stable
        agreed = f"stable for k = {', '.join(map(str, stable))}" if stable else "no k is stable"
        beside = {one.k: f"{one.dimension:.2f}" for one in self.levina_bickel.estimates}.get(self.chosen.k, "infinite")
        return (
            f"intrinsic dimension {self.dimension:.2f}, between {low:.2f} and {high:.2f} (MLE, k = {self.chosen.k}, "
            f"{agreed}; {LEVINA_BICKEL} {beside}, TwoNN {self.twonn.dimension:.2f}; {self.chosen.items} items, "
            f"{self.chosen.duplicates} duplicates removed): start with {self.latents_to_start_with} latents"
        )


def estimate(
    x: Any,
    ks: Sequence[int] = KS,
    *,
    tolerance: float = TOLERANCE,
    anchor: float = ANCHOR,
    share: float = Subsets.share,
    subsamples: int = Subsets.count,
    confidence: float = Subsets.confidence,
    seed: int = Subsets.seed,
    device: torch.device | str | None = None,
) -> Estimate:
    """What `mle_sweep` under both averagings and `twonn` find, with one search for neighbours, on `device`.

    Among few or discrete values, as of binary images, some items have equally far neighbours, above all at small k,
    and so an infinite estimate; the mean of estimates is left out at those ks, the mean of inverses is not.
    """
    tolerance, anchor = finite_number("tolerance", tolerance, at_least=0), proper_share("anchor", anchor)
    subsets = Subsets(share, subsamples, confidence, seed)
    inverses, direct = Average.named(MACKAY_GHAHRAMANI), Average.named(LEVINA_BICKEL)
    numbers = several(ks, inverses)
    near = neighbours(x, numbers[-1], device)
    finite = [k for k in numbers if bool((direct.inverses(near, k) > 0).all())]
    found = estimates(near, [(inverses, k) for k in numbers] + [(direct, k) for k in finite], subsets)
    return Estimate(
        sweep(found[: len(numbers)], tolerance),
        sweep(found[len(numbers) :], tolerance),
        tuple(k for k in numbers if k not in finite),
        twonn(near, anchor),
    )
