"""Objectives that match the aggregate posterior q(z) to the prior: its covariance (DIP-VAE), or all of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.errors import ConfigurationError, unknown_name
from vaescope.models.latent_model import ForwardPass
from vaescope.numerics.aggregate import latent_mmd, log_mixture
from vaescope.numerics.distributions import Distribution, FullGaussian
from vaescope.objectives.objective import OBJECTIVES, Context, ScheduledObjective, Terms

Divergence = Literal["mmd", "kl"]
DIVERGENCES: tuple[str, ...] = get_args(Divergence)
NOISE = "objective/prior"


@dataclass(frozen=True)
class DIP(ScheduledObjective):
    """The negative ELBO + lambda_od sum_{i != j} Cov_ij^2 + lambda_d sum_i (Cov_ii - 1)^2.

    Cov is the covariance over the batch (divisor: its size), as in disentanglement_lib. For a deterministic code, which
    has no prior, only the reconstruction counts.

    Attributes:
        ratio: Default weight of the diagonal, in units of the other weight.
        of_samples: Whether Cov is that of the sampled codes, Cov[mu] + E[Sigma], instead of that of the means, Cov[mu].
        lambda_off_diagonal: Weight of the covariances.
        lambda_diagonal: Weight of the distance of the variances to 1; default: `ratio` times the other weight.
    """

    ratio: ClassVar[float]
    of_samples: ClassVar[bool]

    lambda_off_diagonal: float | Tensor = 10.0
    lambda_diagonal: float | Tensor | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("lambda_off_diagonal")
        if self.lambda_diagonal is None:
            object.__setattr__(self, "lambda_diagonal", self.ratio * self.lambda_off_diagonal)
        self.require("lambda_diagonal")

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

    def covariance(self, posterior: Distribution) -> Float[Tensor, "latents latents"]:
        """The covariance that is compared with the identity."""
        centred = posterior.mean - posterior.mean.mean(0)
        of_means = centred.T @ centred / len(centred)
        if not self.of_samples:
            return of_means
        if isinstance(posterior, FullGaussian):
            return of_means + posterior.covariance.mean(0)
        return of_means + torch.diag(posterior.variance.mean(0))


@OBJECTIVES.register(
    "dip_i", summary="reconstruction + KL + a penalty on the covariance of the means", source="Bonheme, eq. 4.30"
)
@dataclass(frozen=True)
class DIPI(DIP):
    """DIP-VAE I: Cov is that of the means; default weight of the diagonal: ten times the other."""

    ratio = 10.0
    of_samples = False


@OBJECTIVES.register(
    "dip_ii", summary="reconstruction + KL + a penalty on the covariance of the codes", source="Bonheme, eq. 4.30"
)
@dataclass(frozen=True)
class DIPII(DIP):
    """DIP-VAE II: Cov is that of the sampled codes; default weights are equal."""

    ratio = 1.0
    of_samples = True


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
        divergence: `mmd`: between the codes of the batch and equally many codes from the prior, latent by latent,
            summed; or `kl`: KL(p(z) || q(z)) at codes from the prior, with q(z) the mean over the batch.
    """

    alpha: float | Tensor = 1.0
    beta: float | Tensor = 1.0
    divergence: Divergence = "mmd"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("alpha", "beta")
        if self.divergence not in DIVERGENCES:
            raise unknown_name("divergence", self.divergence, DIVERGENCES)

    def noise(self, latents: int) -> dict[str, int]:
        return {NOISE: latents}

    def terms(self, x: Float[Tensor, "batch ..."], result: ForwardPass, context: Context) -> Terms:
        rate = self.rate(result, context)
        divergence = torch.zeros_like(rate)
        if result.prior is not None:
            divergence = self._divergence(result, result.prior, context)
        values = {"reconstruction": self.reconstruction(x, result), "rate": rate, "divergence": divergence}
        return Terms(values, {"reconstruction": 1.0, "rate": self.beta, "divergence": self.alpha})

    def _divergence(self, result: ForwardPass, prior: Distribution, context: Context) -> Float[Tensor, "batch"]:
        codes = prior.sample(context.noise[NOISE]) * context.mask
        if self.divergence == "kl":
            # Latents that are not in use are N(0, 1) in both, and cancel.
            return log_mixture(prior, codes) - log_mixture(result.posterior, codes)
        if len(codes) < 2:
            raise ConfigurationError("divergence 'mmd' compares pairs of items, so batch must be at least 2, got 1.")
        return (latent_mmd(result.z, codes) * context.mask).sum().expand(len(codes))
