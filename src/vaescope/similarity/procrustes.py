"""Procrustes similarity: what the best rotation leaves of the difference (Bonheme, eq. 7.6 to 7.8)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.codes.arrays import ArrayLike
from vaescope.similarity.tables import centred_pair


def procrustes(a: ArrayLike, b: ArrayLike) -> float:
    """1 - (2 - 2 ||X'Y||_*) / 2 = ||X'Y||_* of centred X and Y of Frobenius norm 1: 1 if equal up to rotation, scaling.

    Representations of different widths are compared as if the narrower one had further features that are 0, which
    changes no nuclear norm. With few items for the features it stays far above 0 for unrelated representations (section
    7.2.2).

    Args:
        a, b: Representations of the same items, items x features.
    """
    x, y = (narrow(side) for side in centred_pair(a, b))
    x, y = (side / torch.linalg.matrix_norm(side) for side in (x, y))
    return min(float(torch.linalg.svdvals(x.T @ y).sum()), 1.0)


def narrow(x: Float[Tensor, "items features"]) -> Float[Tensor, "items _"]:
    """At most as many features as items, with the same kernel XX': X = R'Q' gives R', and no nuclear norm changes."""
    if x.shape[1] <= len(x):
        return x
    factor: Tensor = torch.linalg.qr(x.T, mode="r").R
    return factor.T
