"""The ELBO with a reward for the entropy of the posterior (Mathieu et al., eq. 5)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.models.forward_pass import ForwardPass
from vaescope.numerics.distributions import DiagonalGaussian, Distribution, FullGaussian
from vaescope.objectives.objective import Context, Terms
from vaescope.objectives.registry import OBJECTIVES
from vaescope.objectives.scheduled import ScheduledObjective
from vaescope.objectives.strengths import require


@OBJECTIVES.register(
    "maximum_entropy", summary="the beta-VAE as an ELBO with an entropy bonus", source="Mathieu et al., eq. 5"
)
@dataclass(frozen=True)
class MaximumEntropy(ScheduledObjective):
    """-E[log p(x|z)] + KL(q(z|x) || p(z)) - (beta - 1)/2 log |S(x)|, S the covariance of q(z|x).

    For a Gaussian prior with mean 0 and a Gaussian posterior, it equals the objective of the beta-VAE up to a constant
    if the latent space is scaled by sqrt(beta): mean and standard deviation of the posterior are multiplied by it, and
    z is divided by it before the decoder (corollary 1). With other priors the two differ. beta = 1 is the negative
    ELBO. For a deterministic code, only the reconstruction counts.
    """

    beta: float | Tensor = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "beta", at_least=0)

    def terms(self, x: Float[Tensor, "batch ..."], result: ForwardPass, context: Context) -> Terms:
        rate = self.rate(result, context)
        volume = torch.zeros_like(rate) if result.prior is None else log_volume(result.posterior)
        values = {"reconstruction": self.reconstruction(x, result), "rate": rate, "log_volume": volume}
        return Terms(values, {"reconstruction": 1.0, "rate": 1.0, "log_volume": 1 - self.beta})


def log_volume(posterior: Distribution) -> Float[Tensor, "batch"]:
    """log |S| / 2: the entropy up to a constant; latents that are not in use have variance 1 and add 0."""
    if isinstance(posterior, DiagonalGaussian):
        return 0.5 * posterior.log_variance.sum(-1)
    if isinstance(posterior, FullGaussian):
        return posterior.cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return 0.5 * posterior.variance.log().sum(-1)
