"""Procrustes similarity: what the best rotation leaves of the difference (Bonheme, eq. 7.6 to 7.8)."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.similarity.tables import centred_pair


def procrustes(a: Any, b: Any) -> float:
    """1 - (2 - 2 ||X'Y||_*) / 2 = ||X'Y||_* of centred X and Y of Frobenius norm 1: 1 up to rotation and scaling.

    Representations of different widths are compared as if the narrower had features that are 0, which changes no
    nuclear norm. With few items for the features it stays far above 0 for unrelated ones (section 7.2.2).
    """
    x, y = (narrowed(side) for side in centred_pair(a, b))
    x, y = (side / torch.linalg.matrix_norm(side) for side in (x, y))
    return min(float(torch.linalg.svdvals(x.T @ y).sum()), 1.0)


def narrowed(x: Float[Tensor, "items features"]) -> Float[Tensor, "items _"]:
    """At most as many features as items, the kernel XX' unchanged: X = R'Q' gives R', and no nuclear norm changes."""
    if x.shape[1] <= len(x):
        return x
    return torch.linalg.qr(x.T, mode="r").R.T
