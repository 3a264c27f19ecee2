"""Mutual information between data and codes, with the aggregate posterior taken over the codes at hand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import whole_number
from vaescope.codes.arrays import as_array
from vaescope.codes.chunks import Chunk, Codes, checked_rows
from vaescope.errors import DataError
from vaescope.notebook import NotebookResult
from vaescope.numerics import gaussian

ITEMS = 5000
BLOCK_NUMBERS = 1 << 20
# An estimate this near to its ceiling, in nats, says little more than that the information is above it.
NEAR = 0.1


@dataclass(frozen=True)
class MutualInformation(NotebookResult):
    """I(x; z) in nats over `items` examples, and the rate over the same ones (Bonheme, eq. 4.19)."""

    information: float
    standard_error: float
    rate: float
    items: int
    conditional: bool = False

    @property
    def aggregate_kl(self) -> float | None:
        """KL(q(z) || p(z)): the part of the rate that carries no information (eq. 4.19).

        None where each item has a prior of its own: what that prior was told, codes carry without a rate.
        """
        return None if self.conditional else self.rate - self.information

    @property
    def ceiling(self) -> float:
        """The logarithm of the number of examples, which no estimate over them can pass."""
        return math.log(self.items)

    @property
    def saturated(self) -> bool:
        """Whether the estimate touches its ceiling, so that the information may well be larger."""
        return self.information > self.ceiling - NEAR

    def rows(self) -> list[dict[str, Any]]:
        """One row."""
        row = {"information": self.information, "standard_error": self.standard_error, "rate": self.rate}
        return [{**row, "aggregate_kl": self.aggregate_kl, "ceiling": self.ceiling, "items": self.items}]

    def summary(self) -> str:
        """The estimate, its ceiling and the rate."""
        bound = "at least " if self.saturated else ""
        return (
            f"I(x; z) {bound}{self.information:.2f} nats of a rate of {self.rate:.2f} nats "
            f"({self.items} examples, ceiling {self.ceiling:.2f})"
        )


def mutual_information_bound(
    mean: Any, variance: Any, sample: Any, *, prior: Any = None, items: int = ITEMS
) -> MutualInformation:
    """I(x; z) by eq. 4.19 (Bonheme), a lower bound on average, for at most `items` examples, evenly spaced.

    The estimator: the mean over i of log q(z_i | x_i) - log (1/n) sum_k q(z_i | x_k), with z_i = `sample`, one for each
    example. Since the sum holds k = i, it is at most log n; in expectation it is a lower bound of the information under
    the distribution that the n examples were drawn from (Poole et al., 2019). The rate is to
    N(0, 1), or to `prior`, a pair (mean, variance).
    """
    items = whole_number("items", items, 2)
    codes, drawn = Codes.of((mean, variance), prior), as_array(sample, "sample")
    if tuple(drawn.shape) != tuple(codes.mean.shape):
        raise DataError(
            f"sample must be of the shape of mean, {tuple(codes.mean.shape)}, got {tuple(drawn.shape)}; "
            "pass one sample for each example."
        )
    if len(codes) < 2:
        raise DataError(f"mutual information needs at least 2 examples, got {len(codes)}; encode more items.")
    chosen = np.linspace(0, len(codes) - 1, min(items, len(codes))).round().astype(np.int64)
    posterior = codes.chunk(chosen, chosen.tolist())
    z = checked_rows("sample", drawn, chosen, chosen.tolist(), posterior.mean.device)
    if bool((posterior.variance == 0).any()):
        raise DataError("variance must be above 0 everywhere for densities to exist, but some are 0; pass a VAE's.")
    log_variance = posterior.variance.log()
    gains = _gains(z, posterior.mean, log_variance)
    rate = _rate(posterior, log_variance)
    error = gains.std() / math.sqrt(len(gains))
    return MutualInformation(float(gains.mean()), float(error), float(rate), len(gains), _is_conditional(codes))


def _rate(posterior: Chunk, log_variance: Float[Tensor, "items latents"]) -> Float[Tensor, ""]:
    if posterior.prior_mean is None or posterior.prior_variance is None:
        return gaussian.kl_to_standard(posterior.mean, log_variance).sum(-1).mean()
    prior = posterior.prior_mean, posterior.prior_variance.log()
    return gaussian.kl(posterior.mean, log_variance, *prior).sum(-1).mean()


def _is_conditional(codes: Codes) -> bool:
    return any(array is not None and array.ndim == 2 for array in (codes.prior_mean, codes.prior_variance))


def _gains(
    z: Float[Tensor, "items latents"],
    mean: Float[Tensor, "items latents"],
    log_variance: Float[Tensor, "items latents"],
) -> Float[Tensor, "items"]:
    """log q(z_i | x_i) - log q(z_i) of each example, a block of examples against all at a time."""
    items, latents = mean.shape
    block = max(1, BLOCK_NUMBERS // (items * latents))
    parts = []
    for start in range(0, items, block):
        stop = min(start + block, items)
        pairs = gaussian.log_density(z[start:stop, None].expand(-1, items, -1), mean[None], log_variance[None]).sum(-1)
        own = pairs[torch.arange(stop - start), torch.arange(start, stop)]
        parts.append(own - torch.logsumexp(pairs, -1) + math.log(items))
    return torch.cat(parts)
