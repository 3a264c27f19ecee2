"""The divergence of a posterior from a prior: in closed form if there is one, else estimated from a sample."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from vaescope.numerics.distributions import ClosedFormDivergence, DiagonalGaussian, Distribution, FactorisedDistribution


def latent_rate(
    posterior: Distribution, prior: Distribution, z: Float[Tensor, "batch latents"]
) -> Float[Tensor, "batch parts"]:
    """KL(posterior || prior) of each example: one number per latent if both are factorised, else one number.

    Without a closed form it is log q(z|x) - log p(z) at the sample z, whose mean over samples is the divergence.
    """
    if isinstance(posterior, DiagonalGaussian) and isinstance(prior, DiagonalGaussian):
        return posterior.latent_kl(prior)
    found = posterior.kl_to(prior) if isinstance(posterior, ClosedFormDivergence) else None
    if found is not None:
        return found[:, None]
    if isinstance(posterior, FactorisedDistribution) and isinstance(prior, FactorisedDistribution):
        return posterior.latent_log_prob(z) - prior.latent_log_prob(z)
    return (posterior.log_prob(z) - prior.log_prob(z))[:, None]
