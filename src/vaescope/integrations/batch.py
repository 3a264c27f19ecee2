"""Statistics of a batch of posteriors from any training code."""

from __future__ import annotations

from torch import Tensor

from vaescope.codes.arrays import channel_rows
from vaescope.models.moments import Moments
from vaescope.numerics.polarised import ALPHA
from vaescope.regime.statistics import EPSILON, LatentStatistics


def batch_statistics(
    posterior: Moments, prior: Moments | None = None, *, alpha: float = ALPHA, epsilon: float = EPSILON
) -> LatentStatistics:
    """Statistics of the latents over one batch; of spatial codes, channels are the latents and positions examples.

    Args:
        posterior: The posterior of each item.
        prior: The prior of each item, or one that all share. Default: N(0, 1).
        alpha, epsilon: Thresholds of `variable_types`.
    """
    (mean, variance), own = _rows(posterior), None if prior is None else _rows(prior)
    return LatentStatistics.of(mean, variance, prior=own, alpha=alpha, epsilon=epsilon)


def _rows(codes: Moments) -> tuple[Tensor, Tensor]:
    # One copy to the CPU, because otherwise every check of values would synchronise with the accelerator.
    mean, variance = (part.cpu() for part in (codes.mean, codes.variance))
    return (channel_rows(mean), channel_rows(variance)) if mean.ndim > 2 else (mean, variance)
