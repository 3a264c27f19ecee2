"""Posterior collapse in one model, over a sweep of beta, and during training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from vaescope.checks import finite_number, is_whole
from vaescope.codes.arrays import ArrayLike, as_tensor
from vaescope.codes.chunks import MeanAndVariance, PosteriorsLike
from vaescope.errors import DataError
from vaescope.notebook import NotebookResult
from vaescope.numerics.polarised import ALPHA, ROLINEK_ACTIVE_SD, regime_rate, relative_error
from vaescope.regime.statistics import EPSILON, LatentStatistics
from vaescope.regime.variable_types import VariableTypes, variable_types
from vaescope.tables import Row, rows_from_columns

# Variance of the mean representation above which Burda, Grosse and Salakhutdinov (2016) call a unit active.
MIN_ACTIVE_UNIT_VARIANCE = 0.01
NATS_PER_BIT = math.log(2)


@dataclass(frozen=True)
class Collapse(NotebookResult):
    """Signs of posterior collapse.

    Attributes:
        rates: The mean divergence of each latent from the prior, in nats.
        active_units: The active units (Burda et al., 2016), by number.
        types: The variable types.
    """

    rates: tuple[float, ...]
    active_units: tuple[int, ...]
    types: VariableTypes

    @property
    def rate(self) -> float:
        """The mean divergence from the prior, summed over latents, in nats (Bonheme, eq. 4.21)."""
        return math.fsum(self.rates)

    @property
    def rate_bits(self) -> float:
        """The rate in bits."""
        return self.rate / NATS_PER_BIT

    @property
    def share_collapsed(self) -> float:
        """The share of latents that are passive."""
        return len(self.types.passive) / len(self.rates)

    def rows(self) -> list[Row]:
        """One row for each latent."""
        latents = range(len(self.rates))
        columns: dict[str, Iterable[object]] = {"latent": latents, "type": self.types.types, "rate_nats": self.rates}
        columns["rate_bits"] = [rate / NATS_PER_BIT for rate in self.rates]
        columns["active_unit"] = [latent in self.active_units for latent in latents]
        return rows_from_columns(columns)

    def summary(self) -> str:
        """Rate, active units and passive latents."""
        return (
            f"rate {self.rate:.2f} nats ({self.rate_bits:.2f} bits), {len(self.active_units)} of {len(self.rates)} "
            f"units active, {self.share_collapsed:.0%} of latents collapsed"
        )


def collapse(
    codes: PosteriorsLike | LatentStatistics,
    *,
    prior: MeanAndVariance | None = None,
    alpha: float = ALPHA,
    epsilon: float = EPSILON,
    chunk: int | None = None,
) -> Collapse:
    """Rates, active units and passive latents; arguments as for `variable_types`.

    A unit is active if the variance of its mean representation, in units of the prior's, is above 0.01 (Burda et al.,
    2016).
    """
    types = variable_types(codes, prior=prior, alpha=alpha, epsilon=epsilon, chunk=chunk)
    statistics = types.statistics
    units = (statistics.relative_mean.variance > MIN_ACTIVE_UNIT_VARIANCE).nonzero().flatten().tolist()
    return Collapse(tuple(statistics.rate.tolist()), tuple(units), types)


@dataclass(frozen=True)
class RateDistortion(NotebookResult):
    """A point of the rate-distortion plane, in nats per example (Bonheme, figure 4.1)."""

    rate: float
    distortion: float

    @property
    def negative_elbo(self) -> float:
        """Rate + distortion: equal along the diagonals of the plane (Bonheme, eq. 4.21 with beta = 1)."""
        return self.rate + self.distortion

    def rows(self) -> list[Row]:
        """One row."""
        return [{"rate": self.rate, "distortion": self.distortion, "negative_elbo": self.negative_elbo}]

    def summary(self) -> str:
        """The point and the bound it gives."""
        return f"rate {self.rate:.2f} nats, distortion {self.distortion:.2f} nats, ELBO {-self.negative_elbo:.2f} nats"


def rate_distortion(rate: ArrayLike, reconstruction: ArrayLike) -> RateDistortion:
    """The point of a model in the rate-distortion plane.

    Args:
        rate: The divergence from the prior in nats: one number, or one per example, which are averaged.
        reconstruction: The negative log-likelihood in nats, likewise.
    """
    return RateDistortion(_average("rate", rate), _average("reconstruction", reconstruction))


@dataclass(frozen=True)
class TotalCollapse(NotebookResult):
    """Where a sweep over beta ends in total collapse.

    Attributes:
        beta: The smallest beta at and above which all latents are passive; None if there is none.
        betas: The betas of the runs, in increasing order.
        passive_shares: The share of passive latents of each run.
    """

    beta: float | None
    betas: tuple[float, ...]
    passive_shares: tuple[float, ...]

    def rows(self) -> list[Row]:
        """One row per run, by increasing beta."""
        return rows_from_columns({"beta": self.betas, "passive_share": self.passive_shares})

    def summary(self) -> str:
        """Where total collapse begins."""
        if self.beta is None:
            return f"no total collapse up to beta = {self.betas[-1]:g}"
        return f"total collapse from beta = {self.beta:g}"


def point_of_total_collapse(
    betas: Sequence[float], passive_counts: Sequence[int], latents: int | Sequence[int]
) -> TotalCollapse:
    """The beta at and above which all latents of all runs are passive (Clapham, section IV.D).

    Args:
        betas: The beta of each run, in any order.
        passive_counts: The number of passive latents of each run.
        latents: The number of latents, of all runs or of each.
    """
    sizes = [latents] * len(betas) if isinstance(latents, int | np.number | float) else list(latents)
    if not len(betas) == len(passive_counts) == len(sizes) > 0:
        raise DataError(
            "betas, passive_counts and latents must have one entry for each of at least one run, got "
            f"{len(betas)}, {len(passive_counts)} and {len(sizes)}."
        )
    for count, size in zip(passive_counts, sizes, strict=True):
        if not is_whole(size, 1) or not is_whole(count, 0, size):
            raise DataError(f"passive_counts must be whole numbers from 0 to latents, got {count!r} of {size!r}.")
    values = [finite_number("beta", beta, at_least=0) for beta in betas]
    runs = sorted((beta, float(count / size)) for beta, count, size in zip(values, passive_counts, sizes, strict=True))
    alive = max((beta for beta, share in runs if share < 1), default=-math.inf)
    collapsed = [beta for beta, _ in runs if beta > alive]
    return TotalCollapse(min(collapsed, default=None), *(tuple(column) for column in zip(*runs, strict=True)))


@dataclass(frozen=True)
class DeltaKL(NotebookResult):
    """How well the polarised regime approximates the divergence from the prior.

    Attributes:
        kl: The divergence in nats.
        approximation: Its form in the polarised regime.
        active: The active latents, by number.
    """

    kl: float
    approximation: float
    active: tuple[int, ...]

    @property
    def value(self) -> float:
        """The relative error (Rolinek, eq. 30); 0 if both are 0."""
        return relative_error(self.kl, self.approximation)

    def rows(self) -> list[Row]:
        """One row."""
        return [
            {"delta_kl": self.value, "kl": self.kl, "approximation": self.approximation, "active": len(self.active)}
        ]

    def summary(self) -> str:
        """The relative error and the number of active latents."""
        return f"Delta_KL {self.value:.1%} with {len(self.active)} active latents"


def delta_kl(
    mean: ArrayLike, variance: ArrayLike, *, prior: MeanAndVariance | None = None, chunk: int | None = None
) -> DeltaKL:
    """The relative difference of the divergence from its form in the polarised regime (Rolinek, eq. 30).

    That form (eq. 10) is half the sum of mean^2 - log variance - 1 over the active latents, whose mean representation
    has a standard deviation above 0.5; both are averaged over the examples. Codes are in units of the prior.
    Arguments as for `LatentStatistics.of`.
    """
    statistics = LatentStatistics.of(mean, variance, prior=prior, chunk=chunk)
    rate = statistics.rate
    if not bool(torch.isfinite(rate).all()):
        raise DataError("variance must be above 0 for a finite divergence, but some are 0. Pass the codes of a VAE.")
    spread = statistics.relative_mean.variance.sqrt()
    approximation = regime_rate(rate, statistics.relative_variance.mean, spread)
    active = tuple((spread > ROLINEK_ACTIVE_SD).nonzero().flatten().tolist())
    return DeltaKL(float(rate.sum()), float(approximation), active)


def share_below(values: Sequence[float], steps: Sequence[int], threshold: float = 0.03) -> float:
    """The share of training after the last measurement at or above `threshold` (Rolinek, table 1).

    Args:
        values: Measurements.
        steps: The training step of each measurement, increasing; training ends with the last.
        threshold: The bound on the values.
    """
    _check_steps(values, steps)
    numbers = [finite_number("a value", value) for value in values]
    last = max((step for step, number in zip(steps, numbers, strict=True) if number >= threshold), default=0)
    return float((steps[-1] - last) / steps[-1])


def settled_after(values: Sequence[float], steps: Sequence[int], within: float = 0.1) -> int:
    """The step after which values stay near their last one, compared with how far they came from the first one.

    It is the step of the last measurement that is further from the last value than `within` times the distance between
    the first and the last value; 0 if none is.

    Args:
        values: Measurements, such as the loss.
        steps: The training step of each measurement, increasing.
        within: Share of the distance, above 0: 0.1 finds the end of 90% of a fall, 0.5 that of its half.
    """
    share = finite_number("within", within, above=0)
    _check_steps(values, steps)
    numbers = [finite_number("a value", value) for value in values]
    bound = share * abs(numbers[0] - numbers[-1])
    far = (int(step) for step, number in zip(steps, numbers, strict=True) if abs(number - numbers[-1]) > bound)
    return max(far, default=0)


def _check_steps(values: Sequence[float], steps: Sequence[int]) -> None:
    if not len(values) == len(steps) > 0:
        raise DataError(f"values and steps must be of one length, at least 1, got {len(values)} and {len(steps)}.")
    increasing = all(before < after for before, after in pairwise(steps))
    if not increasing or steps[0] < 0 or steps[-1] <= 0:
        raise DataError(f"steps must increase from 0 or more and end above 0, got {steps[0]} to {steps[-1]}.")


def _average(name: str, values: ArrayLike) -> float:
    numbers = as_tensor(values, name).to(torch.float64)
    if numbers.numel() == 0 or not bool(torch.isfinite(numbers).all()):
        raise DataError(f"{name} must hold at least one number, all finite, in nats per example.")
    return float(numbers.mean())
