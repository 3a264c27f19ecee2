"""p(x|z) = product of Bernoulli(sigmoid(logit)): for pixels in [0, 1]."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.likelihoods.likelihood import Likelihood
from vaescope.likelihoods.registry import LIKELIHOODS
from vaescope.numerics.distributions import full_precision


@LIKELIHOODS.register("bernoulli", summary="pixels in [0, 1]", source="Bonheme, Table C.1")
@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """The decoder gives logits; the log-likelihood of grey pixels is the negative binary cross-entropy."""

    def module(self, shape: tuple[int, ...]) -> BernoulliLikelihood:
        """Decoder output -> distribution of x."""
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
        return -F.binary_cross_entropy_with_logits(self.logits, x, reduction="none").flatten(1).sum(1)
