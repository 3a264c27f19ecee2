"""How far a posterior is from a prior: in closed form where there is one, else by the sample at hand."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor

from vaescope.numerics.distributions import DiagonalGaussian


def latent_rate(posterior: Any, prior: Any, z: Float[Tensor, "batch latents"]) -> Float[Tensor, "batch parts"]:
    """KL(posterior || prior) of each example, latent by latent where both are products, else as one number.

    Without a closed form it is log q(z|x) - log p(z) at the given sample z, whose mean over samples is the divergence.
    """
    if isinstance(posterior, DiagonalGaussian) and isinstance(prior, DiagonalGaussian):
        return posterior.latent_kl(prior)
    closed = getattr(posterior, "kl_to", None)
    found = None if closed is None else closed(prior)
    if found is not None:
        return found[:, None]
    if hasattr(posterior, "latent_log_prob") and hasattr(prior, "latent_log_prob"):
        return posterior.latent_log_prob(z) - prior.latent_log_prob(z)
    return (posterior.log_prob(z) - prior.log_prob(z))[:, None]
