"""The mean and variance of a diagonal Gaussian posterior, from a mean and any measure of how wide it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.codes.arrays import as_tensor
from vaescope.errors import DataError, unknown_name
from vaescope.numerics import gaussian
from vaescope.numerics.distributions import DiagonalGaussian, full_precision

Spread = Literal["variance", "log_variance", "std", "log_std"]
SPREADS: tuple[Spread, ...] = get_args(Spread)
VARIANCE, LOG_VARIANCE, STD, LOG_STD = SPREADS
SPREAD_WORDS: dict[Spread, str] = {
    "variance": "variance",
    "log_variance": "log-variance",
    "std": "standard deviation",
    "log_std": "log of the standard deviation",
}


@dataclass(frozen=True)
class Moments:
    """A diagonal Gaussian by its mean and variance, which may be 0; codes may be spatial."""

    mean: Float[Tensor, "batch ..."]
    variance: Float[Tensor, "batch ..."]

    def sample(self, noise: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        """One code per row of standard noise."""
        return self.mean + self.variance.clamp_min(0).sqrt() * noise

    def log_prob(self, z: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch"]:
        """The log-density of each code."""
        return gaussian.log_density(z.flatten(1), self.mean.flatten(1), self.variance.flatten(1).log()).sum(1)

    def flat(self) -> Moments:
        """The same with one row of numbers per item."""
        return Moments(self.mean.flatten(1), self.variance.flatten(1))


@dataclass(frozen=True)
class Parameters:
    """A diagonal Gaussian in the words of its model: the mean, and what `spread` says of how wide it is.

    Attributes:
        second: What gives the width; None for a code without noise.
    """

    mean: object
    second: object
    spread: Spread = VARIANCE

    def moments(self) -> Moments:
        """The mean and the variance, without gradients."""
        second = torch.zeros_like(number_tensor(self.mean)) if self.second is None else self.second
        return moments_of(self.mean, second, self.spread)

    def gaussian(self) -> DiagonalGaussian:
        """The distribution with the gradients of its tensors, for training."""
        if not (isinstance(self.mean, Tensor) and isinstance(self.second, Tensor)):
            kinds = f"{type(self.mean).__name__} and {type(self.second).__name__}"
            raise DataError(f"A model must return its mean and variance as tensors to be trained, got {kinds}.")
        mean, second = full_precision(self.mean), full_precision(self.second)
        match self.spread:
            case "variance":
                return DiagonalGaussian(mean, second.log())
            case "log_variance":
                return DiagonalGaussian(mean, second)
            case "std":
                return DiagonalGaussian(mean, 2 * second.log())
            case "log_std":
                return DiagonalGaussian(mean, 2 * second)


def checked_spread(spread: Spread | None) -> Spread | None:
    """The spread, or an error that lists those there are."""
    if spread is not None and spread not in SPREADS:
        raise unknown_name("spread", spread, SPREADS)
    return spread


def moments_of(mean: object, second: object, kind: Spread) -> Moments:
    """The moments of a posterior whose `second` is its variance, or what `kind` says."""
    means, seconds = number_tensor(mean), number_tensor(second)
    if means.ndim == seconds.ndim == 1:
        raise DataError(
            f"mean and {SPREAD_WORDS[kind]} must be items x latents, got {tuple(means.shape)} and "
            f"{tuple(seconds.shape)}. Return them with a second axis: mean[:, None]."
        )
    if means.shape != seconds.shape or means.ndim < 2:
        raise DataError(
            f"mean and {SPREAD_WORDS[kind]} must have one shape, items x latents, got {tuple(means.shape)} and "
            f"{tuple(seconds.shape)}. Expand the smaller one."
        )
    match kind:
        case "variance":
            return Moments(means, seconds)
        case "log_variance":
            return Moments(means, seconds.exp())
        case "std":
            return Moments(means, seconds.square())
        case "log_std":
            return Moments(means, (2 * seconds).exp())


def number_tensor(values: object) -> Tensor:
    """In double precision: what follows is computed as from arrays that the user passes."""
    found = as_tensor(values, "the model's output")
    if torch.compiler.is_exporting():  # an exported graph stays in the precision of the model
        return found
    # Apple's GPUs have no double precision.
    return (found.cpu() if found.device.type == "mps" else found).double()
