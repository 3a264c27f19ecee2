"""DIP-VAE I and II: a penalty draws the covariance of the codes to the identity (Bonheme, eq. 4.30)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.models.forward_pass import ForwardPass
from vaescope.numerics.distributions import Distribution, FullGaussian
from vaescope.objectives.objective import Context, Terms
from vaescope.objectives.registry import OBJECTIVES
from vaescope.objectives.scheduled import ScheduledObjective
from vaescope.objectives.strengths import require


@dataclass(frozen=True)
class DIP(ScheduledObjective):
    """The negative ELBO + lambda_od sum_{i != j} Cov_ij^2 + lambda_d sum_i (Cov_ii - 1)^2.

    Cov is the covariance over the batch (divisor: its size), as in disentanglement_lib; subclasses choose of what. For
    a deterministic code, which has no prior, only the reconstruction counts.

    Attributes:
        lambda_off_diagonal: Weight of the covariances.
        lambda_diagonal: Weight of the distance of the variances to 1; default: `ratio` times the other weight.
    """

    ratio: ClassVar[float]
    lambda_off_diagonal: float | Tensor = 10.0
    lambda_diagonal: float | Tensor | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "lambda_off_diagonal", at_least=0)
        if self.lambda_diagonal is None:
            object.__setattr__(self, "lambda_diagonal", self.ratio * self.lambda_off_diagonal)
        require(self, "lambda_diagonal", at_least=0)

    def covariance(self, posterior: Distribution) -> Float[Tensor, "latents latents"]:
        """The covariance that is drawn to the identity."""
        raise NotImplementedError

    def terms(self, x: Float[Tensor, "batch ..."], result: ForwardPass, context: Context) -> Terms:
        rate = self.rate(result, context)
        off_diagonal = diagonal = torch.zeros_like(rate)
        if result.prior is not None:
            covariance = self.covariance(result.posterior)
            variance = covariance.diagonal()
            off_diagonal = (covariance - torch.diag(variance)).square().sum().expand_as(rate)
            diagonal = ((variance - 1).square() * context.mask).sum().expand_as(rate)
        values = {
            "reconstruction": self.reconstruction(x, result),
            "rate": rate,
            "off_diagonal": off_diagonal,
            "diagonal": diagonal,
        }
        assert self.lambda_diagonal is not None  # set by __post_init__
        penalties = {"off_diagonal": self.lambda_off_diagonal, "diagonal": self.lambda_diagonal}
        return Terms(values, {"reconstruction": 1.0, "rate": 1.0, **penalties})


@OBJECTIVES.register(
    "dip_i", summary="reconstruction + KL + a penalty on the covariance of the means", source="Bonheme, eq. 4.30"
)
@dataclass(frozen=True)
class DIPI(DIP):
    """DIP-VAE I: Cov is that of the means, Cov[mu]; default weight of the diagonal: ten times the other."""

    ratio = 10.0

    def covariance(self, posterior: Distribution) -> Float[Tensor, "latents latents"]:
        return of_means(posterior)


@OBJECTIVES.register(
    "dip_ii", summary="reconstruction + KL + a penalty on the covariance of the codes", source="Bonheme, eq. 4.30"
)
@dataclass(frozen=True)
class DIPII(DIP):
    """DIP-VAE II: Cov is that of the sampled codes, Cov[mu] + E[Sigma]; default weights are equal."""

    ratio = 1.0

    def covariance(self, posterior: Distribution) -> Float[Tensor, "latents latents"]:
        if isinstance(posterior, FullGaussian):
            return of_means(posterior) + posterior.covariance.mean(0)
        return of_means(posterior) + torch.diag(posterior.variance.mean(0))


def of_means(posterior: Distribution) -> Float[Tensor, "latents latents"]:
    """The covariance of the posterior means over the batch."""
    centred = posterior.mean - posterior.mean.mean(0)
    return centred.T @ centred / len(centred)
