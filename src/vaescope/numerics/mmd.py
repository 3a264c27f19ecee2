"""Maximum mean discrepancy of each latent, with inverse multiquadratic kernels (Mathieu et al., section 6.3)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

KERNEL_SCALES = (0.2, 0.4, 1.0, 2.0, 4.0, 10.0)


def latent_mmd(one: Float[Tensor, "codes latents"], other: Float[Tensor, "others latents"]) -> Float[Tensor, "latents"]:
    """An unbiased estimate of the squared discrepancy between two sets of at least two codes, for each latent.

    Terms within a set skip the similarity of an item to itself, so the estimate may be negative.
    """
    return _within(one) + _within(other) - 2 * _kernel(one, other).mean((0, 1))


def _within(codes: Tensor) -> Tensor:
    count = len(codes)
    # An item's similarity to itself is 1 for each scale.
    return (_kernel(codes, codes).sum((0, 1)) - count * len(KERNEL_SCALES)) / (count * (count - 1))


def _kernel(one: Tensor, other: Tensor) -> Tensor:
    """The sum over scales C of C / (C + (a - b)^2), for every pair and latent."""
    squares = (one[:, None] - other).square()
    return sum((scale / (scale + squares) for scale in KERNEL_SCALES), torch.zeros_like(squares))
