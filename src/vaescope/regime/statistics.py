"""What the polarised regime is read from: statistics of each latent, one pass, memory for latents but not for items."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.checks import finite_number
from vaescope.codes.chunks import Chunk, Codes
from vaescope.errors import ConfigurationError, DataError
from vaescope.numerics import gaussian
from vaescope.numerics.moments import Spread
from vaescope.numerics.polarised import ALPHA

EPSILON = 0.01
BINS = 20


@dataclass(frozen=True)
class InUnitsOfPrior:
    """The mean less the prior's, over the prior's standard deviation, the variance over the prior's, and that one."""

    mean: Spread
    variance: Spread
    unit: Spread

    def merge(self, other: InUnitsOfPrior) -> InUnitsOfPrior:
        """Those of both sets of examples together."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return InUnitsOfPrior(*(one.merge(two) for one, two in pairs))


@dataclass(frozen=True)
class LatentStatistics:
    """Statistics of each latent over `count` examples; on the CPU, in float64, whatever they were computed from.

    `kl` sums the divergence from the prior (Bonheme, eq. 2.18). `negligible` counts the examples whose divergence is
    below `epsilon` (Clapham, eq. 5), `passive` those for which the latent is passive within `alpha` (Bonheme,
    definition 4.1.1). `histogram` counts variances, in units of the prior's, in 20 bins of [0, 1) and one from 1 up.
    `prior` is there when one was given: the codes as that prior measures them.
    """

    count: int
    mean: Spread
    variance: Spread
    kl: Float[Tensor, "latents"]
    negligible: Int[Tensor, "latents"]
    passive: Int[Tensor, "latents"]
    histogram: Int[Tensor, "latents bins"]
    alpha: float
    epsilon: float
    prior: InUnitsOfPrior | None = None

    @classmethod
    def of(
        cls,
        mean: Any,
        variance: Any,
        *,
        prior: Any = None,
        alpha: float = ALPHA,
        epsilon: float = EPSILON,
        chunk: int | None = None,
    ) -> LatentStatistics:
        """The statistics of arrays of items x latents, read `chunk` items at a time.

        `prior` is a pair (mean, variance), of one row for each item or of one row for all; N(0, 1) without.
        """
        return _merged([Codes.of((mean, variance), prior)], alpha, epsilon, chunk)

    @classmethod
    def over(
        cls, chunks: Iterable[tuple[Any, ...]], *, alpha: float = ALPHA, epsilon: float = EPSILON
    ) -> LatentStatistics:
        """The statistics of all chunks together; each is (mean, variance) or (mean, variance, prior pair)."""
        return _merged((Codes.of(part[:2], *part[2:]) for part in chunks), alpha, epsilon, None)

    def merge(self, other: LatentStatistics) -> LatentStatistics:
        """The statistics of both sets of examples together."""
        _check_mergeable(self, other)
        merged = {field.name: getattr(self, field.name) for field in fields(self)}
        merged["count"] = self.count + other.count
        for name in ("mean", "variance"):
            merged[name] = getattr(self, name).merge(getattr(other, name))
        for name in ("kl", "negligible", "passive", "histogram"):
            merged[name] = getattr(self, name) + getattr(other, name)
        if self.prior is not None and other.prior is not None:
            merged["prior"] = self.prior.merge(other.prior)
        return LatentStatistics(**merged)

    @property
    def latents(self) -> int:
        """The number of latents."""
        return len(self.kl)

    @property
    def relative_mean(self) -> Spread:
        """The mean less the prior's, in units of the prior's standard deviation."""
        return self.mean if self.prior is None else self.prior.mean

    @property
    def relative_variance(self) -> Spread:
        """The variance in units of the prior's."""
        return self.variance if self.prior is None else self.prior.variance

    @property
    def rate(self) -> Float[Tensor, "latents"]:
        """Mean divergence from the prior in nats (Bonheme, eq. 4.21)."""
        return self.kl / self.count


def threshold(name: str, value: Any) -> float:
    """A number strictly between 0 and one half, or an error that names it: at one half, active and passive meet."""
    number = finite_number(name, value)
    if not 0 < number < 0.5:
        raise ConfigurationError(f"{name} must lie strictly between 0 and 0.5, got {value!r}.")
    return number


def _merged(parts: Iterable[Codes], alpha: float, epsilon: float, chunk: int | None) -> LatentStatistics:
    alpha, epsilon = threshold("alpha", alpha), finite_number("epsilon", epsilon, above=0)
    total: LatentStatistics | None = None
    for codes in parts:
        for one in codes.chunks(chunk, first=0 if total is None else total.count):
            part = _statistics(one, alpha, epsilon)
            total = part if total is None else total.merge(part)
    if total is None:
        raise DataError("codes must hold at least one example, got none.")
    return total


def _statistics(chunk: Chunk, alpha: float, epsilon: float) -> LatentStatistics:
    mean, variance = chunk.mean, chunk.variance
    prior_mean, prior_variance = chunk.prior_mean, chunk.prior_variance
    if prior_mean is None or prior_variance is None:
        divergence = gaussian.kl_to_standard(mean, variance.log())
        moved, ratio, prior = mean, variance, None
    else:
        divergence = gaussian.kl(mean, variance.log(), prior_mean, prior_variance.log())
        moved, ratio = (mean - prior_mean) / prior_variance.sqrt(), variance / prior_variance
        prior = InUnitsOfPrior(Spread.of(moved), Spread.of(ratio), Spread.of(prior_variance.expand_as(ratio)))
    passive = (moved.abs() <= alpha) & ((ratio - 1).abs() <= alpha)
    return LatentStatistics(
        len(mean),
        Spread.of(mean),
        Spread.of(variance),
        divergence.sum(0).cpu(),
        (divergence < epsilon).sum(0).cpu(),
        passive.sum(0).cpu(),
        _histogram(ratio).cpu(),
        alpha,
        epsilon,
        prior,
    )


def _histogram(variance: Float[Tensor, "items latents"]) -> Int[Tensor, "latents bins"]:
    latents = variance.shape[1]
    offset = torch.arange(latents, device=variance.device) * (BINS + 1)
    place = (variance * BINS).clamp_(max=BINS).long() + offset
    return torch.bincount(place.flatten(), minlength=latents * (BINS + 1)).reshape(latents, BINS + 1)


def _check_mergeable(one: LatentStatistics, two: LatentStatistics) -> None:
    for name in ("latents", "alpha", "epsilon"):
        if getattr(one, name) != getattr(two, name):
            raise DataError(
                f"statistics that are merged must agree in {name}, got {getattr(one, name)} and {getattr(two, name)}."
            )
    if (one.prior is None) != (two.prior is None):
        raise DataError("statistics that are merged must all have a prior or all have none, got one of each.")
