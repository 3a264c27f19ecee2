"""Likelihoods: descriptions that build the module from decoder outputs to p(x|z)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.checks import finite_number
from vaescope.errors import ConfigurationError, quoted
from vaescope.numerics import gaussian
from vaescope.numerics.distributions import Distribution, full_precision
from vaescope.numerics.moments import Spread
from vaescope.registry import Part, PartRegistry


@runtime_checkable
class LikelihoodModule(Protocol):
    """A module from the outputs of a decoder to p(x|z)."""

    def __call__(self, output: Float[Tensor, "batch ..."], /) -> Distribution:
        """The distribution of each item; its log-probability is summed over the item."""
        ...


@runtime_checkable
class Likelihood(Part, Protocol):
    """Builds the likelihood of a model.

    Attributes:
        requires: What items must be, in words; None if any numbers will do.
        independent: Whether the dimensions of an item are independent: its distributions have `dimension_log_prob`,
            the log-density of each, which standardised items and missing values need.
    """

    requires: ClassVar[str | None] = None
    independent: ClassVar[bool] = False

    def accepts(self, items: Tensor) -> bool:
        """Whether items are what the likelihood requires."""
        return True

    def module(self, shape: tuple[int, ...]) -> LikelihoodModule:
        """The likelihood of items with this shape, which may have parameters for each of their dimensions."""
        ...

    def preprocess(self, x: Tensor) -> Tensor:
        """The items as the encoder of a model takes them."""
        return x


@runtime_checkable
class FittedToItems(Protocol):
    """A module with buffers that are computed from the training items before training."""

    def fit_items(self, items: Spread, /) -> None:
        """Set the buffers; each dimension of an item is a column."""


LIKELIHOODS: PartRegistry[Likelihood] = PartRegistry("likelihood", "vaescope.likelihoods", Likelihood)


@LIKELIHOODS.register("bernoulli", summary="pixels in [0, 1]", source="Bonheme, Table C.1")
@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """The decoder gives logits; the log-likelihood of grey pixels is the negative binary cross-entropy."""

    requires: ClassVar[str | None] = "numbers in [0, 1]"
    independent: ClassVar[bool] = True

    def accepts(self, items: Tensor) -> bool:
        return bool((items >= 0).all() and (items <= 1).all())

    def module(self, shape: tuple[int, ...]) -> BernoulliLikelihood:
        return BernoulliLikelihood()


class BernoulliLikelihood(nn.Module):
    """Has no parameters."""

    def forward(self, output: Float[Tensor, "batch ..."]) -> BernoulliDistribution:
        return BernoulliDistribution(full_precision(output))


@dataclass(frozen=True)
class BernoulliDistribution:
    """Independent bits with the given logits."""

    logits: Float[Tensor, "batch ..."]

    @property
    def mean(self) -> Float[Tensor, "batch ..."]:
        """The probability of a one."""
        return torch.sigmoid(self.logits)

    @property
    def variance(self) -> Float[Tensor, "batch ..."]:
        """p (1 - p)."""
        return self.mean * (1 - self.mean)

    def sample(self, noise: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        """Bits from uniform noise."""
        return (noise < self.mean).to(self.logits.dtype)

    def log_prob(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch"]:
        """log p(x|z), summed over the item."""
        return self.dimension_log_prob(x).flatten(1).sum(1)

    def dimension_log_prob(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        """log p(x|z) of each dimension."""
        return -F.binary_cross_entropy_with_logits(self.logits, x, reduction="none")


@LIKELIHOODS.register("gaussian", summary="one variance, fixed or learned", source="Bonheme, eq. 4.3")
@dataclass(frozen=True)
class Gaussian(Likelihood):
    """One variance for all dimensions.

    With a fixed variance of 1/2, the negative log-likelihood is the summed squared error plus a constant.

    Attributes:
        variance: The variance, or its initial value if it is learned.
        learned: Whether the variance is a parameter.
    """

    independent: ClassVar[bool] = True
    variance: float = 1.0
    learned: bool = False

    def __post_init__(self) -> None:
        finite_number("the variance of a Gaussian likelihood", self.variance, above=0)
        if not isinstance(self.learned, bool):
            raise ConfigurationError(f"learned must be True or False, got {quoted(self.learned)}.")

    def module(self, shape: tuple[int, ...]) -> GaussianLikelihood:
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
        return self.dimension_log_prob(x).flatten(1).sum(1)

    def dimension_log_prob(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        """log p(x|z) of each dimension."""
        return gaussian.log_density(x, self.mean, self.log_variance.expand_as(self.mean))


@LIKELIHOODS.register("laplace", summary="one scale", source="Mathieu et al., authors' code")
@dataclass(frozen=True)
class Laplace(Likelihood):
    """One scale for all dimensions: the mean absolute deviation."""

    independent: ClassVar[bool] = True
    scale: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", finite_number("the scale of a Laplace likelihood", self.scale, above=0))

    def module(self, shape: tuple[int, ...]) -> LaplaceLikelihood:
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
        return self.dimension_log_prob(x).flatten(1).sum(1)

    def dimension_log_prob(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        """log p(x|z) of each dimension."""
        return -(x - self.mean).abs() / self.scale - math.log(2 * self.scale)
