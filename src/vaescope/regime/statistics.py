"""Statistics of each latent in one pass over the codes; memory grows with latents, not with items."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.checks import finite_number
from vaescope.codes.arrays import ArrayLike
from vaescope.codes.chunks import Chunk, Codes, MeanAndVariance
from vaescope.errors import ConfigurationError, DataError
from vaescope.numerics import gaussian
from vaescope.numerics.moments import Spread
from vaescope.numerics.polarised import ALPHA, example_types

EPSILON = 0.01  # divergence in nats below which an example counts as passive (Clapham, eq. 5)
VARIANCE_BINS = 20


@dataclass(frozen=True)
class PriorUnits:
    """Codes in units of their prior.

    Attributes:
        mean: The mean minus the prior's mean, divided by the prior's standard deviation.
        variance: The variance divided by the prior's variance.
        unit: The prior's variance.
    """

    mean: Spread
    variance: Spread
    unit: Spread

    def merge(self, other: PriorUnits) -> PriorUnits:
        """Merge with the statistics of other examples."""
        return PriorUnits(self.mean.merge(other.mean), self.variance.merge(other.variance), self.unit.merge(other.unit))


@dataclass(frozen=True)
class LatentStatistics:
    """Statistics of each latent over `count` examples, in float64 on the CPU.

    Attributes:
        count: The number of examples.
        mean, variance: Spread of the mean and of the variance representation.
        kl: Sum of the divergences from the prior in nats (Bonheme, eq. 2.18).
        negligible: Number of examples whose divergence is below `epsilon` (Clapham, eq. 5).
        passive, active: Number of examples for which the latent is passive, and active, within `alpha` (Bonheme,
            definition 4.1.1).
        histogram: Counts of variances in units of the prior's: 20 bins of [0, 1) and one for all others.
        alpha, epsilon: The tolerance of `passive` and `active` and the threshold of `negligible`.
        prior: The codes in units of the prior; None for N(0, 1).
    """

    count: int
    mean: Spread
    variance: Spread
    kl: Float[Tensor, "latents"]
    negligible: Int[Tensor, "latents"]
    passive: Int[Tensor, "latents"]
    active: Int[Tensor, "latents"]
    histogram: Int[Tensor, "latents bins"]
    alpha: float
    epsilon: float
    prior: PriorUnits | None = None

    @classmethod
    def of(
        cls,
        mean: ArrayLike,
        variance: ArrayLike,
        *,
        prior: MeanAndVariance | None = None,
        alpha: float = ALPHA,
        epsilon: float = EPSILON,
        chunk: int | None = None,
    ) -> LatentStatistics:
        """The statistics of arrays of items x latents.

        Args:
            mean, variance: Means and variances of the posteriors.
            prior: A pair (mean, variance), items x latents or one number per latent. Default: N(0, 1).
            alpha, epsilon: The tolerance of `passive` and `active` and the threshold of `negligible`.
            chunk: The number of items to read at a time. Default: a few megabytes.
        """
        return merged_statistics([Codes.of((mean, variance), prior)], alpha, epsilon, chunk)

    @classmethod
    def over(
        cls,
        chunks: Iterable[MeanAndVariance | tuple[ArrayLike, ArrayLike, MeanAndVariance]],
        *,
        alpha: float = ALPHA,
        epsilon: float = EPSILON,
    ) -> LatentStatistics:
        """The statistics of all chunks together; each is (mean, variance) or (mean, variance, prior)."""
        parts = (Codes.of((part[0], part[1]), part[2] if len(part) == 3 else None) for part in chunks)
        return merged_statistics(parts, alpha, epsilon, None)

    def merge(self, other: LatentStatistics) -> LatentStatistics:
        """The statistics of both sets of examples together."""
        for name in ("latents", "alpha", "epsilon"):
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours != theirs:
                raise DataError(f"statistics that are merged must agree in {name}, got {ours} and {theirs}.")
        if (self.prior is None) != (other.prior is None):
            raise DataError("statistics that are merged must all have a prior or all have none, got one of each.")
        return replace(
            self,
            count=self.count + other.count,
            mean=self.mean.merge(other.mean),
            variance=self.variance.merge(other.variance),
            kl=self.kl + other.kl,
            negligible=self.negligible + other.negligible,
            passive=self.passive + other.passive,
            active=self.active + other.active,
            histogram=self.histogram + other.histogram,
            prior=None if self.prior is None or other.prior is None else self.prior.merge(other.prior),
        )

    @property
    def latents(self) -> int:
        """The number of latents."""
        return len(self.kl)

    @property
    def relative_mean(self) -> Spread:
        """The mean minus the prior's, in units of the prior's standard deviation."""
        return self.mean if self.prior is None else self.prior.mean

    @property
    def relative_variance(self) -> Spread:
        """The variance in units of the prior's."""
        return self.variance if self.prior is None else self.prior.variance

    @property
    def rate(self) -> Float[Tensor, "latents"]:
        """Mean divergence from the prior in nats (Bonheme, eq. 4.21)."""
        return self.kl / self.count

    @property
    def well_determined(self) -> Float[Tensor, "latents"]:
        """How far the data determine each latent: 1 - E[variance / the prior's variance].

        The sum over latents is the number of well-determined parameters (MacKay, 1992, Bayesian Interpolation) with
        latents as parameters: the number of latents minus Tr Var[Z] - Tr Var[M] (Bonheme, section 8.3). 1 for active
        latents, 0 for passive ones, the share of active examples for mixtures; below 0 if the variance exceeds the
        prior's.
        """
        return 1 - self.relative_variance.mean


def checked_tolerance(name: str, value: object) -> float:
    """A number strictly between 0 and 0.5, above which active and passive would overlap, or an error that names it."""
    number = finite_number(name, value)
    if not 0 < number < 0.5:
        raise ConfigurationError(f"{name} must lie strictly between 0 and 0.5, got {value!r}.")
    return number


def merged_statistics(parts: Iterable[Codes], alpha: float, epsilon: float, chunk: int | None) -> LatentStatistics:
    """The statistics of all codes together, read `chunk` items at a time."""
    alpha, epsilon = checked_tolerance("alpha", alpha), finite_number("epsilon", epsilon, above=0)
    total: LatentStatistics | None = None
    for codes in parts:
        for one in codes.chunks(chunk, first=0 if total is None else total.count):
            part = _statistics(one, alpha, epsilon)
            total = part if total is None else total.merge(part)
    if total is None:
        raise DataError("codes must hold at least one example, got none.")
    return total


def divergences(chunk: Chunk) -> Float[Tensor, "items latents"]:
    """The divergence of each posterior from its prior, in nats (Bonheme, eq. 2.18)."""
    if chunk.prior_mean is None or chunk.prior_variance is None:
        return gaussian.kl_to_standard(chunk.mean, chunk.variance.log())
    return gaussian.kl(chunk.mean, chunk.variance.log(), chunk.prior_mean, chunk.prior_variance.log())


def _statistics(chunk: Chunk, alpha: float, epsilon: float) -> LatentStatistics:
    moved, ratio, prior = chunk.mean, chunk.variance, None
    if chunk.prior_mean is not None and chunk.prior_variance is not None:
        moved, ratio = (moved - chunk.prior_mean) / chunk.prior_variance.sqrt(), ratio / chunk.prior_variance
        prior = PriorUnits(Spread.of(moved), Spread.of(ratio), Spread.of(chunk.prior_variance.expand_as(ratio)))
    rates = divergences(chunk)
    passive, active = example_types(moved, ratio, alpha)
    latents = ratio.shape[1]
    offset = torch.arange(latents, device=ratio.device) * (VARIANCE_BINS + 1)
    bins = (ratio * VARIANCE_BINS).clamp_(max=VARIANCE_BINS).long() + offset
    histogram = torch.bincount(bins.flatten(), minlength=latents * (VARIANCE_BINS + 1))
    return LatentStatistics(
        len(chunk.mean),
        Spread.of(chunk.mean),
        Spread.of(chunk.variance),
        rates.sum(0).cpu(),
        (rates < epsilon).sum(0).cpu(),
        passive.sum(0).cpu(),
        active.sum(0).cpu(),
        histogram.reshape(latents, VARIANCE_BINS + 1).cpu(),
        alpha,
        epsilon,
        prior,
    )
