"""The decomposition objective: beta controls overlap, alpha the match of q(z) and p(z) (Mathieu et al., eq. 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.errors import ConfigurationError, unknown_name
from vaescope.models.forward_pass import ForwardPass
from vaescope.numerics.aggregate import latent_mmd, log_mixture
from vaescope.numerics.distributions import DiagonalGaussian, Distribution
from vaescope.objectives.objective import Context, Terms
from vaescope.objectives.registry import OBJECTIVES
from vaescope.objectives.scheduled import ScheduledObjective
from vaescope.objectives.strengths import require

Divergence = Literal["mmd", "kl"]
DIVERGENCES: tuple[str, ...] = get_args(Divergence)
NOISE = "objective/prior"


@OBJECTIVES.register(
    "decomposition", summary="reconstruction + beta KL + alpha D(q(z), p(z))", source="Mathieu et al., eq. 7"
)
@dataclass(frozen=True)
class Decomposition(ScheduledObjective):
    """-E[log p(x|z)] + beta KL(q(z|x) || p(z)) + alpha D(q(z), p(z)); alpha = 0 is the beta-VAE.

    For a deterministic code, which has no prior, only the reconstruction counts.

    Attributes:
        alpha: Weight of the divergence between the aggregate posterior and the prior.
        beta: Weight of the rate.
        divergence: `mmd`: between the codes of the batch and as many codes from the prior, latent by latent, summed;
            or `kl`: KL(p(z) || q(z)) at codes from the prior, with q(z) the mean over the batch.
    """

    alpha: float | Tensor = 1.0
    beta: float | Tensor = 1.0
    divergence: Divergence = "mmd"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "alpha", at_least=0)
        require(self, "beta", at_least=0)
        if self.divergence not in DIVERGENCES:
            raise unknown_name("divergence", self.divergence, DIVERGENCES)

    def noise(self, latents: int) -> dict[str, int]:
        return {NOISE: latents}

    def terms(self, x: Float[Tensor, "batch ..."], result: ForwardPass, context: Context) -> Terms:
        rate = self.rate(result, context)
        values = {
            "reconstruction": self.reconstruction(x, result),
            "rate": rate,
            "divergence": torch.zeros_like(rate)
            if result.prior is None
            else self._divergence(result, result.prior, context),
        }
        return Terms(values, {"reconstruction": 1.0, "rate": self.beta, "divergence": self.alpha})

    def _divergence(self, result: ForwardPass, prior: Distribution, context: Context) -> Float[Tensor, "batch"]:
        codes = _codes(prior, context.noise[NOISE]) * context.mask
        if self.divergence == "kl":
            # Latents that are not in use are N(0, 1) in both, and cancel.
            return log_mixture(prior, codes) - log_mixture(result.posterior, codes)
        if len(codes) < 2:
            raise ConfigurationError("divergence 'mmd' compares pairs of items, so batch must be at least 2, got 1.")
        return (latent_mmd(result.z, codes) * context.mask).sum().expand(len(codes))


def _codes(prior: Distribution, noise: Float[Tensor, "batch latents"]) -> Float[Tensor, "batch latents"]:
    """A code from the prior for each row of noise."""
    if isinstance(prior, DiagonalGaussian):
        # A Gaussian for all items has no rows, and gives a code for one row of noise only.
        prior = DiagonalGaussian(prior.mean.expand_as(noise), prior.log_variance.expand_as(noise))
    return prior.sample(noise)
