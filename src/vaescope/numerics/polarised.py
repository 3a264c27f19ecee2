"""The rule that tells active, mixed and passive latents apart (Bonheme, section 6.4.1)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

ACTIVE, MIXED, PASSIVE = "active", "mixed", "passive"
TYPES = (ACTIVE, MIXED, PASSIVE)
ALPHA = 0.1


def variable_type_codes(
    mean: Float[Tensor, "latents"], variance: Float[Tensor, "latents"], alpha: float = ALPHA
) -> Int[Tensor, "latents"]:
    """Positions in `TYPES`, from the mean and the variance of each latent's variance representation.

    Active: the posterior variance stays near 0; passive: it stays near 1; mixed: neither, or it changes.
    """
    steady = variance < alpha
    active = steady & (mean <= alpha)
    passive = steady & ((mean - 1).abs() <= alpha)
    mixed = torch.full_like(mean, TYPES.index(MIXED), dtype=torch.int64)
    return mixed.masked_fill(active, TYPES.index(ACTIVE)).masked_fill(passive, TYPES.index(PASSIVE))
