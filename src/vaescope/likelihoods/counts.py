"""Likelihoods of counts: Poisson and negative binomial, with the total of an item as an offset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.errors import ConfigurationError, quoted
from vaescope.likelihoods.likelihood import LIKELIHOODS, Likelihood
from vaescope.numerics.distributions import Distribution, full_precision
from vaescope.numerics.moments import Spread

TOTALS = ("item", "decoded")
DISPERSIONS = ("feature", "shared")


@dataclass(frozen=True)
class Counts(Likelihood):
    """What the likelihoods of counts have in common: how their rates are made of the output of the decoder.

    Attributes:
        total: 'item': the rates are shares of the total of the item, a softmax of the decoder's output, so that codes
            need not hold how deeply an item was counted (Lopez et al., 2018). 'decoded': the output is the log-rate.
    """

    requires: ClassVar[str | None] = "whole numbers of at least 0"
    total: str = "item"

    def __post_init__(self) -> None:
        _one_of("total", self.total, TOTALS)

    def accepts(self, items: Tensor) -> bool:
        return are_counts(items)

    def preprocess(self, x: Tensor) -> Tensor:
        """log(1 + x), because counts differ by orders of magnitude (Lopez et al., 2018)."""
        return torch.log1p(x)


@LIKELIHOODS.register("poisson", summary="counts", source="Lopez et al., 2018")
@dataclass(frozen=True)
class Poisson(Counts):
    """Independent Poisson counts."""

    def module(self, shape: tuple[int, ...]) -> CountLikelihood:
        return CountLikelihood(self)


@LIKELIHOODS.register(
    "negative_binomial", summary="counts that vary more than Poisson counts", source="Lopez et al., 2018"
)
@dataclass(frozen=True)
class NegativeBinomial(Counts):
    """Independent negative binomial counts of mean m and variance m + m^2 / theta, with theta a parameter.

    Attributes:
        dispersion: 'feature': a theta for each dimension of an item; 'shared': one for all.
        zero_inflated: Whether a count may also be zero for another reason, with a learned probability for each
            dimension.
    """

    dispersion: str = "feature"
    zero_inflated: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _one_of("dispersion", self.dispersion, DISPERSIONS)
        if not isinstance(self.zero_inflated, bool):
            raise ConfigurationError(f"zero_inflated must be True or False, got {quoted(self.zero_inflated)}.")

    def module(self, shape: tuple[int, ...]) -> NegativeBinomialLikelihood:
        return NegativeBinomialLikelihood(self, shape)


class CountLikelihood(nn.Module):
    """Keeps the mean total of the items it is fitted to, the total of decoded means; Poisson counts.

    Attributes:
        reference_total: 1 until the likelihood is fitted to items.
    """

    reference_total: Tensor

    def __init__(self, likelihood: Counts) -> None:
        super().__init__()
        self.shares = likelihood.total == "item"
        self.register_buffer("reference_total", torch.ones(()))

    def fit_items(self, items: Spread) -> None:
        """Set the total of decoded means to the mean total of the items."""
        self.reference_total.copy_(items.mean.sum())

    def forward(self, output: Float[Tensor, "batch ..."]) -> Distribution:
        return PoissonDistribution(self.rates(output))

    def rates(self, output: Float[Tensor, "batch ..."]) -> Rates:
        """The rates that the output of the decoder stands for."""
        output = full_precision(output)
        if not self.shares:
            return Rates(output, None)
        return Rates(F.log_softmax(output.flatten(1), 1).view_as(output), full_precision(self.reference_total))


class NegativeBinomialLikelihood(CountLikelihood):
    """Holds the log of theta, and the logit of the probability of zeros for another reason."""

    def __init__(self, likelihood: NegativeBinomial, shape: tuple[int, ...]) -> None:
        super().__init__(likelihood)
        self.log_theta = nn.Parameter(torch.zeros(shape if likelihood.dispersion == "feature" else ()))
        # An improbable zero at first: 2%.
        self.zero_logit = nn.Parameter(torch.full(shape, -4.0)) if likelihood.zero_inflated else None

    def forward(self, output: Float[Tensor, "batch ..."]) -> Distribution:
        zero_logit = None if self.zero_logit is None else full_precision(self.zero_logit)
        return NegativeBinomialDistribution(self.rates(output), full_precision(self.log_theta), zero_logit)


@dataclass(frozen=True)
class Rates:
    """The expected counts of items.

    Attributes:
        log_rates: Logs of the expected counts, or of their shares in the total of the item.
        reference_total: The total where no item is given; None if the rates are not shares.
    """

    log_rates: Float[Tensor, "batch ..."]
    reference_total: Float[Tensor, ""] | None

    @property
    def mean(self) -> Float[Tensor, "batch ..."]:
        """The expected counts of items of the reference total."""
        rates = self.log_rates.exp()
        return rates if self.reference_total is None else rates * self.reference_total

    def log_mean(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        """The logs of the expected counts of items of the total of x."""
        if self.reference_total is None:
            return self.log_rates
        total = x.flatten(1).sum(1).clamp_min(torch.finfo(self.log_rates.dtype).tiny)
        return self.log_rates + total.log().view(-1, *[1] * (x.ndim - 1))


@dataclass(frozen=True)
class PoissonDistribution:
    """Independent Poisson counts."""

    rates: Rates

    @property
    def mean(self) -> Float[Tensor, "batch ..."]:
        """The rates."""
        return self.rates.mean

    @property
    def variance(self) -> Float[Tensor, "batch ..."]:
        """The rates."""
        return self.rates.mean

    def sample(self, noise: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        """Counts from uniform noise: the quantiles."""
        log_mean = self.rates.mean.log()
        return _quantile(lambda count: _poisson(count, log_mean), self.mean, self.variance, noise)

    def log_prob(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch"]:
        """log p(x|z), summed over the item."""
        return _poisson(x, self.rates.log_mean(x)).flatten(1).sum(1)


@dataclass(frozen=True)
class NegativeBinomialDistribution:
    """Independent negative binomial counts; some are zero for another reason if `zero_logit` is given."""

    rates: Rates
    log_theta: Float[Tensor, "..."]
    zero_logit: Float[Tensor, "..."] | None = None

    @property
    def mean(self) -> Float[Tensor, "batch ..."]:
        """m, times the probability that a count is not zero for another reason."""
        return self.rates.mean if self.zero_logit is None else self.rates.mean * torch.sigmoid(-self.zero_logit)

    @property
    def variance(self) -> Float[Tensor, "batch ..."]:
        """m + m^2 / theta; a mixture with zeros has the variance within and between its parts."""
        mean = self.rates.mean
        variance = mean + mean.square() * torch.exp(-self.log_theta)
        if self.zero_logit is None:
            return variance
        counted = torch.sigmoid(-self.zero_logit)
        return counted * variance + counted * (1 - counted) * mean.square()

    def sample(self, noise: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        """Counts from uniform noise: the quantiles."""
        log_mean = self.rates.mean.log()
        return _quantile(lambda count: self._log_probability(count, log_mean), self.mean, self.variance, noise)

    def log_prob(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch"]:
        """log p(x|z), summed over the item."""
        return self._log_probability(x, self.rates.log_mean(x)).flatten(1).sum(1)

    def _log_probability(self, x: Tensor, log_mean: Tensor) -> Tensor:
        counted = _negative_binomial(x, log_mean, self.log_theta)
        if self.zero_logit is None:
            return counted
        log_counted = F.logsigmoid(-self.zero_logit)
        either = torch.logaddexp(F.logsigmoid(self.zero_logit).expand_as(counted), counted + log_counted)
        return torch.where(x == 0, either, counted + log_counted)


def are_counts(items: Tensor) -> bool:
    """Whether all numbers are whole and at least 0."""
    return bool((items >= 0).all() and (items == items.round()).all())


def _poisson(x: Tensor, log_mean: Tensor) -> Tensor:
    return x * log_mean - log_mean.exp() - torch.lgamma(x + 1)


def _negative_binomial(x: Tensor, log_mean: Tensor, log_theta: Tensor) -> Tensor:
    theta = log_theta.exp()
    log_sum = torch.logaddexp(log_mean, log_theta.expand_as(log_mean))
    ways = torch.lgamma(x + theta) - torch.lgamma(theta) - torch.lgamma(x + 1)
    return ways + theta * (log_theta - log_sum) + x * (log_mean - log_sum)


def _quantile(log_probability: Callable[[Tensor], Tensor], mean: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
    """The smallest count whose cumulative probability is at least the noise, counted upwards from zero.

    Rounding may leave the sum of all probabilities below noise that is almost 1: such counts end 40 standard deviations
    above the mean.
    """
    count, last = torch.zeros_like(mean), mean + 40 * variance.sqrt() + 40
    log_noise, log_sum = noise.to(mean.dtype).log(), log_probability(count)
    while (short := (log_sum < log_noise) & (count < last)).any():
        count = count + short
        log_sum = torch.where(short, torch.logaddexp(log_sum, log_probability(count)), log_sum)
    return count


def _one_of(option: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigurationError(f"{option} must be {' or '.join(map(repr, known))}, got {quoted(value)}.")
