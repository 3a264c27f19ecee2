"""Items in the units of the data outside of a model, and standardised inside; missing cells are left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.data.dataset import Missing
from vaescope.data.sources import option_name, passing, setting
from vaescope.errors import ConfigurationError
from vaescope.likelihoods.likelihood import LIKELIHOODS, Likelihood
from vaescope.numerics.distributions import Distribution
from vaescope.numerics.moments import Spread

# Relative to the mean: rounding alone gives a constant dimension a standard deviation of about 1e-16.
MIN_RELATIVE_DEVIATION = 1e-12
LARGE_SCALE = 30.0  # of a mean or a standard deviation


@runtime_checkable
class IndependentDimensions(Distribution, Protocol):
    """A distribution of items whose dimensions are independent."""

    def dimension_log_prob(self, x: Tensor, /) -> Tensor:
        """The log-density of each dimension, in the shape of the items."""


class ItemUnits(nn.Module):
    """The mean and the scale of each dimension of the training items; of a signal, of each channel.

    A model standardises its inputs with them, and its distributions of items are returned to the units of the data. So
    everything outside of the model has one unit, whether the model standardises or not.

    Attributes:
        mean: What the encoder sees in place of a missing value; 0 until it is fitted to items.
        scale: The standard deviation, or 1 for a constant dimension; 1 for all unless the model standardises.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, shape: tuple[int, ...], standardise: bool, missing: Missing | None) -> None:
        super().__init__()
        self.standardise, self.missing = standardise, missing
        # A convolution has the same weights at every position of a signal, which therefore need one scale.
        own = (*shape[:1], *[1] * (len(shape) - 1))
        self.register_buffer("mean", torch.zeros(own))
        self.register_buffer("scale", torch.ones(own))

    def fit_items(self, items: Spread) -> None:
        """Set the means, and the scales if the model standardises."""
        pooled = items.pooled(self.mean.numel())
        self.mean.copy_(pooled.mean.view_as(self.mean))
        if self.standardise:
            deviation = pooled.variance.sqrt()
            varies = deviation > MIN_RELATIVE_DEVIATION * pooled.mean.abs()
            self.scale.copy_(torch.where(varies, deviation, 1).view_as(self.scale))

    @property
    def shift(self) -> Tensor:
        """What is subtracted from an item before it is divided by the scale."""
        return self.mean if self.standardise else torch.zeros_like(self.mean)

    def inside(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        """Items as the encoder takes them."""
        x = x if self.missing is None else torch.where(x.isnan(), self.mean, x)
        return (x - self.shift) / self.scale if self.standardise else x

    def forward(self, standard: Distribution) -> InDataUnits:
        """The distribution of items in the units of the data, from that of items inside."""
        assert isinstance(standard, IndependentDimensions)
        return InDataUnits(standard, self.shift, self.scale, self.missing is not None)


@dataclass(frozen=True)
class InDataUnits:
    """The distribution of shift + scale * y where `standard` is that of y.

    Attributes:
        masks: Whether cells that are NaN are left out of log-densities.
    """

    standard: IndependentDimensions
    shift: Float[Tensor, "..."]
    scale: Float[Tensor, "..."]
    masks: bool = False

    @property
    def mean(self) -> Float[Tensor, "batch ..."]:
        """The mean, in the units of the data."""
        return self.shift + self.scale * self.standard.mean

    @property
    def variance(self) -> Float[Tensor, "batch ..."]:
        """The variance of each dimension, in the units of the data."""
        return self.scale.square() * self.standard.variance

    def sample(self, noise: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        """A draw, in the units of the data."""
        return self.shift + self.scale * self.standard.sample(noise)

    def log_prob(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch"]:
        """log p(x|z), summed over the item."""
        return self.dimension_log_prob(x).flatten(1).sum(1)

    def dimension_log_prob(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        """log p(x|z) of each dimension; 0 where x is missing."""
        y = (x - self.shift) / self.scale
        if not self.masks:
            return self.standard.dimension_log_prob(y) - self.scale.log()
        missing = x.isnan()
        # A number in place of NaN, because 0 times NaN would reach the gradients.
        density = self.standard.dimension_log_prob(torch.where(missing, 0, y)) - self.scale.log()
        return torch.where(missing, 0, density)


def item_units(shape: tuple[int, ...], standardise: bool, missing: Missing | None) -> ItemUnits | None:
    """The units of a model; None if they are those of the data and no values are missing."""
    return ItemUnits(shape, standardise, missing) if standardise or missing is not None else None


def plain_units(standardise: bool, missing: Missing | None) -> dict[str, object]:
    """The entries of a configuration, which has none for the defaults, so that it keeps its id."""
    given = {"standardise": standardise, "missing": missing}
    return {name: value for name, value in given.items() if value}


def takes_any_scale(likelihood: Likelihood) -> bool:
    """Whether items of the likelihood may have any scale, and so can be standardised."""
    return likelihood.independent and likelihood.requires is None


def large_scale(items: Spread) -> str:
    """What to do about numbers that are too large for a net; empty if none is."""
    deviation, mean = float(items.variance.sqrt().nan_to_num().max()), float(items.mean.abs().max())
    if max(deviation, mean) <= LARGE_SCALE:
        return ""
    return (
        f"a dimension has a standard deviation of up to {deviation:.2g} and a mean of up to {mean:.2g}, but nets learn "
        f"from numbers of about 1. Pass {passing('standardise', True)}; everything stays in the units of the data."
    )


def check_units(likelihood: Likelihood, standardise: bool, missing: str | None) -> None:
    """Raise an error unless items of the likelihood can be standardised and cells of them can be missing."""
    name = LIKELIHOODS.name_of(likelihood)
    if standardise and not takes_any_scale(likelihood):
        needed = likelihood.requires or "whole items"
        raise ConfigurationError(
            f"{setting('standardise', True)} needs a likelihood of any numbers, such as 'gaussian', but "
            f"likelihood {name!r} takes {needed}. Remove {option_name('standardise')}, or choose another likelihood."
        )
    if missing is not None and not likelihood.independent:
        raise ConfigurationError(
            f"{setting('missing', missing)} needs a likelihood that can leave out missing values, such as "
            f"'gaussian', but {name!r} needs whole items. Fill in the missing values, or choose another likelihood."
        )
