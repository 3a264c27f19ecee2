"""p(x|z) = product of Laplace(output, scale): absolute errors (code of Mathieu et al. for Fashion-MNIST)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.checks import finite_number
from vaescope.likelihoods.likelihood import Likelihood
from vaescope.likelihoods.registry import LIKELIHOODS
from vaescope.numerics.distributions import full_precision


@LIKELIHOODS.register("laplace", summary="one scale", source="Mathieu et al., authors' code")
@dataclass(frozen=True)
class Laplace(Likelihood):
    """One scale for all dimensions: the mean absolute deviation."""

    scale: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", finite_number("the scale of a Laplace likelihood", self.scale, above=0))

    def module(self, shape: tuple[int, ...]) -> LaplaceLikelihood:
        """Decoder output -> distribution of x."""
        return LaplaceLikelihood(self.scale)


class LaplaceLikelihood(nn.Module):
    """Has no parameters."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, output: Float[Tensor, "batch ..."]) -> LaplaceDistribution:
        return LaplaceDistribution(full_precision(output), self.scale)


@dataclass(frozen=True)
class LaplaceDistribution:
    """Independent Laplace distributions with the given means and one scale."""

    mean: Float[Tensor, "batch ..."]
    scale: float

    @property
    def variance(self) -> Float[Tensor, "batch ..."]:
        """Twice the squared scale, at every dimension."""
        return torch.full_like(self.mean, 2 * self.scale**2)

    def sample(self, noise: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        """A draw from standard normal noise: the quantile with the same cumulative probability."""
        distance: Tensor = math.log(2) + torch.special.log_ndtr(-noise.abs())
        return self.mean - self.scale * noise.sign() * distance

    def log_prob(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch"]:
        """log p(x|z), summed over the item."""
        return (-(x - self.mean).abs() / self.scale - math.log(2 * self.scale)).flatten(1).sum(1)
