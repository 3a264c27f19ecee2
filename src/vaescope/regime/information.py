"""Mutual information between data and codes, with the aggregate posterior of the given codes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import whole_number
from vaescope.codes.arrays import ArrayLike, as_array
from vaescope.codes.chunks import Codes, MeanAndVariance, checked_rows
from vaescope.errors import DataError
from vaescope.notebook import NotebookResult
from vaescope.numerics import gaussian
from vaescope.regime.statistics import divergences
from vaescope.tables import Row

MAX_ITEMS = 5000
BLOCK_NUMBERS = 1 << 20
SATURATION_MARGIN = 0.1  # nats; an estimate this close to its ceiling is only a lower bound


@dataclass(frozen=True)
class MutualInformation(NotebookResult):
    """Mutual information of data and codes (Bonheme, eq. 4.19).

    Attributes:
        information: I(x; z) in nats.
        standard_error: Its standard error.
        rate: The divergence from the prior of the same examples.
        items: The number of examples.
        conditional: Whether each item has its own prior.
    """

    information: float
    standard_error: float
    rate: float
    items: int
    conditional: bool = False

    @property
    def aggregate_kl(self) -> float | None:
        """KL(q(z) || p(z)): the part of the rate that carries no information (eq. 4.19).

        None for conditional models, whose codes contain the condition without any rate.
        """
        return None if self.conditional else self.rate - self.information

    @property
    def ceiling(self) -> float:
        """The logarithm of the number of examples, which the estimate cannot exceed."""
        return math.log(self.items)

    @property
    def saturated(self) -> bool:
        """Whether the estimate is close to its ceiling, so that the information may be larger."""
        return self.information > self.ceiling - SATURATION_MARGIN

    def rows(self) -> list[Row]:
        """One row."""
        numbers: Row = {"information": self.information, "standard_error": self.standard_error, "rate": self.rate}
        return [{**numbers, "aggregate_kl": self.aggregate_kl, "ceiling": self.ceiling, "items": self.items}]

    def summary(self) -> str:
        """The estimate, its ceiling and the rate."""
        bound = "at least " if self.saturated else ""
        return (
            f"I(x; z) {bound}{self.information:.2f} nats of a rate of {self.rate:.2f} nats "
            f"({self.items} examples, ceiling {self.ceiling:.2f})"
        )


def mutual_information_bound(
    mean: ArrayLike,
    variance: ArrayLike,
    sample: ArrayLike,
    *,
    prior: MeanAndVariance | None = None,
    items: int = MAX_ITEMS,
) -> MutualInformation:
    """A lower bound, in expectation, of the mutual information I(x; z) (Bonheme, eq. 4.19).

    The estimator is the mean over i of log q(z_i | x_i) - log (1/n) sum_k q(z_i | x_k). Since the sum includes k = i,
    it is at most log n (Poole et al., 2019).

    Args:
        mean, variance: Means and variances of the posteriors, items x latents.
        sample: One sample z_i of each posterior.
        prior: A pair (mean, variance), for the rate. Default: N(0, 1).
        items: The maximum number of examples, which are evenly spaced.
    """
    items = whole_number("items", items, 2)
    codes, drawn = Codes.of((mean, variance), prior), as_array(sample, "sample")
    if tuple(drawn.shape) != tuple(codes.mean.shape):
        raise DataError(
            f"sample must be of the shape of mean, {tuple(codes.mean.shape)}, got {tuple(drawn.shape)}. "
            "Pass one sample per example."
        )
    if len(codes) < 2:
        raise DataError(f"mutual information needs at least 2 examples, got {len(codes)}. Encode more items.")
    chosen = np.linspace(0, len(codes) - 1, min(items, len(codes))).round().astype(np.int64)
    posterior = codes.chunk(chosen, chosen.tolist())
    z = checked_rows("sample", drawn, chosen, chosen.tolist(), posterior.mean.device)
    if bool((posterior.variance == 0).any()):
        raise DataError(
            "variance must be above 0 everywhere for densities to exist, but some are 0. Pass the codes of a VAE."
        )
    gains = _gains(z, posterior.mean, posterior.variance.log())
    rate = divergences(posterior).sum(-1).mean()
    error = gains.std() / math.sqrt(len(gains))
    conditional = any(array is not None and array.ndim == 2 for array in (codes.prior_mean, codes.prior_variance))
    return MutualInformation(float(gains.mean()), float(error), float(rate), len(gains), conditional)


def _gains(
    z: Float[Tensor, "items latents"],
    mean: Float[Tensor, "items latents"],
    log_variance: Float[Tensor, "items latents"],
) -> Float[Tensor, "items"]:
    """log q(z_i | x_i) - log q(z_i) of each example, a block of examples against all at a time."""
    items = len(mean)
    block = max(1, BLOCK_NUMBERS // items)
    parts = []
    for start in range(0, items, block):
        stop = min(start + block, items)
        pairs = gaussian.pairwise_log_density(z[start:stop], mean, log_variance)
        own = pairs[torch.arange(stop - start), torch.arange(start, stop)]
        parts.append(own - torch.logsumexp(pairs, -1) + math.log(items))
    return torch.cat(parts)
