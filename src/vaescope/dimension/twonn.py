"""Intrinsic dimension from the ratio of the two nearest distances (Facco et al., 2017; Bonheme, section 8.2.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from vaescope.checks import proper_share
from vaescope.dimension.neighbour_distances import neighbours
from vaescope.errors import DataError
from vaescope.notebook import NotebookResult

ANCHOR = 0.9


@dataclass(frozen=True)
class TwoNN(NotebookResult):
    """The estimate, from the lower `anchor` of the ratios: `kept` of those of `items` distinct items."""

    dimension: float
    anchor: float
    kept: int
    items: int
    duplicates: int

    def rows(self) -> list[dict[str, Any]]:
        """One row."""
        return [vars(self).copy()]

    def summary(self) -> str:
        """The estimate and what it rests on."""
        return (
            f"intrinsic dimension {self.dimension:.2f} (TwoNN, the lower {self.anchor:.0%} of {self.items} items, "
            f"{self.duplicates} duplicates removed)"
        )


def twonn(x: Any, anchor: float = ANCHOR) -> TwoNN:
    """The slope, through the origin, of -log(1 - F(r)) over log r, r the second distance over the first (eq. 8.6).

    F is i / items at the i-th smallest ratio, i from 1. The largest ratios, beyond the share `anchor`, are left out,
    as outliers would rule the fit. `x` is what `mle` takes, or what `neighbours` returned.
    """
    share = proper_share("anchor", anchor)
    near = neighbours(x, 2)
    # Not one ratio less because .29 * 100 is 28.999999999999996.
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
            "x must have items whose two nearest neighbours are not equally far, but all are, as on a grid. "
            "Use mle with a larger k."
        )
    return TwoNN(float((ratios * tail).sum()) / power, share, kept, near.items, near.duplicates)
