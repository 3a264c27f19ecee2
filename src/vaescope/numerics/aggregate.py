"""The density of codes over all items, q(z) = mean of q(z|x), estimated from a batch (Bonheme, eq. 4.29)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.numerics.distributions import DiagonalGaussian

Estimator = Literal["weighted", "stratified", "plain"]
ESTIMATORS: tuple[str, ...] = get_args(Estimator)


@dataclass(frozen=True)
class Aggregate:
    """log q(z) of each code of the batch, and log q(z_j) of each of its latents."""

    joint: Float[Tensor, "batch"]
    marginals: Float[Tensor, "batch latents"]


def aggregate(posterior: Any, z: Float[Tensor, "batch latents"], items: int, estimator: Estimator) -> Aggregate:
    """The densities at codes z_i ~ q(z|x_i), each a weighted sum of q(z_i|x_k) over the batch.

    Every Gaussian posterior will do: with a full covariance the latents have its Gaussian marginals.
    """
    product = isinstance(posterior, DiagonalGaussian)
    pairs = _for_each(len(z), z)
    latents = (posterior if product else posterior.marginals).latent_log_prob(pairs)
    whole = latents.sum(-1) if product else posterior.log_prob(pairs)
    weights = log_weights(z, items, estimator)
    return Aggregate(torch.logsumexp(whole + weights, 1), torch.logsumexp(latents + weights[..., None], 1))


def log_weights(z: Float[Tensor, "batch latents"], items: int, estimator: Estimator) -> Float[Tensor, "batch batch"]:
    """The log of the weight of q(z_i|x_k) in q(z_i), for a batch of m out of n items.

    weighted: 1/(nm), minibatch weighted sampling (eq. 4.29), a lower bound in expectation.
    stratified: 1/n for the item's own, (n-1)/(n(m-1)) for each other: unbiased, and exact when the batch holds all
        items. It is minibatch stratified sampling (Chen et al., 2018, appendix C.2) averaged over the orders of the
        batch, so that no item is singled out by its place.
    plain: 1/m. disentanglement_lib leaves out the 1/m as well, which shifts every logarithm by log m.
    """
    batch = len(z)
    # A held-out batch may be larger than the training set; it stands for at least itself.
    items = max(items, batch)
    if estimator == "weighted":
        return z.new_full((batch, batch), -math.log(items * batch))
    if estimator == "plain" or batch == 1:
        return z.new_full((batch, batch), -math.log(batch if estimator == "plain" else items))
    others = math.log((items - 1) / (items * (batch - 1)))
    own = torch.eye(batch, dtype=torch.bool, device=z.device)
    return torch.where(own, -math.log(items), others).to(z.dtype)


def log_mixture(components: Any, z: Float[Tensor, "codes latents"]) -> Float[Tensor, "codes"]:
    """The log of the mean of the components' densities; a distribution that is not one for each item is itself."""
    count = len(components.mean) if components.mean.ndim > 1 else 1
    return torch.logsumexp(components.log_prob(_for_each(count, z)), 1) - math.log(count)


def _for_each(count: int, z: Tensor) -> Float[Tensor, "codes count latents"]:
    return z[:, None].expand(-1, count, -1)
