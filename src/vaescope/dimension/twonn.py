"""Intrinsic dimension from the ratio of the two nearest distances (Facco et al., 2017; Bonheme, section 8.2.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from vaescope.checks import proper_share
from vaescope.dimension.neighbour_distances import PointsLike, neighbours
from vaescope.errors import DataError
from vaescope.notebook import NotebookResult
from vaescope.tables import Row

DEFAULT_ANCHOR = 0.9


@dataclass(frozen=True)
class TwoNN(NotebookResult):
    """A TwoNN estimate of the dimension.

    Attributes:
        dimension: The estimate.
        anchor: The share of the ratios that are used.
        kept: The number of ratios that are used.
        items: The number of distinct items.
        duplicates: The number of duplicates that were removed.
    """

    dimension: float
    anchor: float
    kept: int
    items: int
    duplicates: int

    def rows(self) -> list[Row]:
        """One row."""
        return [vars(self).copy()]

    def summary(self) -> str:
        """The estimate and its settings."""
        return (
            f"intrinsic dimension {self.dimension:.2f} (TwoNN, lowest {self.anchor:.0%} of {self.items} items, "
            f"{self.duplicates} duplicates removed)"
        )


def twonn(x: PointsLike, anchor: float = DEFAULT_ANCHOR) -> TwoNN:
    """TwoNN estimate of the intrinsic dimension from the ratios r of the two smallest distances of each item (eq. 8.6).

    The estimate is the slope, through the origin, of -log(1 - F(r)) over log r, where F is i / items at the i-th
    smallest ratio.

    Args:
        x: As for `mle`.
        anchor: The share of the ratios that are used; the largest are left out, because outliers dominate the fit.
    """
    share = proper_share("anchor", anchor)
    near = neighbours(x, 2)
    # Rounding must not cost a ratio: .29 * 100 is 28.999999999999996.
    kept = math.floor(share * near.items + 1e-9)
    if kept == 0:
        raise DataError(
            f"anchor must keep at least one of the {near.items} distinct items, but {anchor!r} keeps none. Raise it."
        )
    ratios = torch.log(near.distances[:, 1] / near.distances[:, 0]).sort().values[:kept]
    rank = torch.arange(1, kept + 1, dtype=torch.float64, device=ratios.device)
    tail = -torch.log1p(-rank / near.items)
    power = float(ratios.square().sum())
    if power <= 1e-18 * kept:
        raise DataError(
            "x must have items whose two nearest neighbours are at different distances, but none has, as on a grid. "
            "Use mle with a larger k."
        )
    return TwoNN(float((ratios * tail).sum()) / power, share, kept, near.items, near.duplicates)
