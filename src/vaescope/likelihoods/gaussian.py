"""p(x|z) = N(output, variance I): for real numbers, with a fixed or a learned variance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.checks import finite_number
from vaescope.errors import ConfigurationError
from vaescope.likelihoods.likelihood import Likelihood
from vaescope.likelihoods.registry import LIKELIHOODS
from vaescope.numerics import gaussian
from vaescope.numerics.distributions import full_precision


@LIKELIHOODS.register("gaussian", summary="one variance, fixed or learned", source="Bonheme, eq. 4.3")
@dataclass(frozen=True)
class Gaussian(Likelihood):
    """One variance for all dimensions.

    With a fixed variance of 1/2, the negative log-likelihood is the summed squared error plus a constant.

    Attributes:
        variance: The variance, or its initial value if it is learned.
        learned: Whether the variance is a parameter.
    """

    variance: float = 1.0
    learned: bool = False

    def __post_init__(self) -> None:
        finite_number("the variance of a Gaussian likelihood", self.variance, above=0)
        if not isinstance(self.learned, bool):
            raise ConfigurationError(f"learned must be True or False, got {self.learned!r}.")

    def module(self, shape: tuple[int, ...]) -> GaussianLikelihood:
        """Decoder output -> distribution of x."""
        return GaussianLikelihood(self)


class GaussianLikelihood(nn.Module):
    """Holds the log-variance, as a parameter if it is learned."""

    log_variance: Tensor

    def __init__(self, likelihood: Gaussian) -> None:
        super().__init__()
        value = torch.tensor(math.log(likelihood.variance))
        if likelihood.learned:
            self.log_variance = nn.Parameter(value)
        else:
            self.register_buffer("log_variance", value, persistent=False)

    def forward(self, output: Float[Tensor, "batch ..."]) -> GaussianDistribution:
        return GaussianDistribution(full_precision(output), full_precision(self.log_variance))


@dataclass(frozen=True)
class GaussianDistribution:
    """Independent Gaussians with the given means and a log-variance for all dimensions or one for each."""

    mean: Float[Tensor, "batch ..."]
    log_variance: Float[Tensor, "..."]

    @property
    def variance(self) -> Float[Tensor, "batch ..."]:
        """The variance, at every dimension."""
        return torch.exp(self.log_variance).expand_as(self.mean)

    def sample(self, noise: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        """A draw from standard noise."""
        return gaussian.reparameterise(self.mean, self.log_variance.expand_as(self.mean), noise)

    def log_prob(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch"]:
        """log p(x|z), summed over the item (Bonheme, eq. 2.15)."""
        return gaussian.log_density(x, self.mean, self.log_variance.expand_as(self.mean)).flatten(1).sum(1)
