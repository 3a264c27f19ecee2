"""p(z) = N(0, I): the prior of the standard VAE."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.numerics.distributions import DiagonalGaussian
from vaescope.priors.prior import Prior
from vaescope.priors.registry import PRIORS


@PRIORS.register("standard", summary="N(0, I)", source="Bonheme, eq. 2.19")
@dataclass(frozen=True)
class Standard(Prior):
    """Zero mean, unit variance."""

    def module(self, latents: int, condition_width: int = 0) -> StandardPrior:
        """The prior over `latents` latents."""
        return StandardPrior()


class StandardPrior(nn.Module):
    """Has no parameters."""

    def forward(self, mask: Float[Tensor, "latents"], condition: Tensor | None = None) -> DiagonalGaussian:
        zero = torch.zeros_like(mask)
        return DiagonalGaussian(zero, zero)
