"""p(z) = prod_j gamma N(z_j; 0, variance) + (1 - gamma) N(z_j; 0, 1): sparse latents (Mathieu, section 6.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.checks import finite_number
from vaescope.errors import ConfigurationError
from vaescope.numerics.distributions import DiagonalGaussian, ScaleMixture, full_precision
from vaescope.priors.prior import Prior
from vaescope.priors.registry import PRIORS


@PRIORS.register("sparse", summary="each latent near 0 (off) or N(0, 1) (on)", source="Mathieu et al., section 6.3")
@dataclass(frozen=True)
class Sparse(Prior):
    """Each latent is near 0 (off) with probability gamma; gamma = 0 is the standard prior.

    Attributes:
        gamma: Probability that a latent is off.
        variance: Variance of a latent that is off. The paper has .05; its code uses .05 as the standard deviation,
            which is a variance of 0.0025.
    """

    gamma: float = 0.8
    variance: float = 0.05

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", finite_number("gamma of a sparse prior", self.gamma, at_least=0))
        object.__setattr__(self, "variance", finite_number("the variance of a sparse prior", self.variance, above=0))
        if self.gamma > 1:
            raise ConfigurationError(f"gamma of a sparse prior must be between 0 and 1, got {self.gamma}.")

    def module(self, latents: int, condition_width: int = 0) -> SparsePrior:
        """The prior over `latents` latents."""
        return SparsePrior(self)


class SparsePrior(nn.Module):
    """Has no parameters."""

    log_weights: Tensor

    def __init__(self, prior: Sparse) -> None:
        super().__init__()
        self.gamma, self.log_variance = prior.gamma, math.log(prior.variance)
        self.register_buffer("log_weights", torch.tensor([prior.gamma, 1 - prior.gamma]).log(), persistent=False)

    def forward(
        self, mask: Float[Tensor, "latents"], condition: Tensor | None = None
    ) -> ScaleMixture | DiagonalGaussian:
        off, on = self.log_variance * full_precision(mask), torch.zeros_like(full_precision(mask))
        if self.gamma in (0, 1):
            return DiagonalGaussian(on, off if self.gamma else on)
        # Normalised in this precision, because a rounding error would count for every latent.
        return ScaleMixture(torch.stack([off, on]), torch.log_softmax(full_precision(self.log_weights), 0))
