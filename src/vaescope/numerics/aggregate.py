"""The aggregate posterior q(z), the mean of q(z|x) over all items: estimates from a batch (Bonheme, eq. 4.29)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.errors import ConfigurationError
from vaescope.numerics.distributions import Distribution, FactorisedDistribution, FullGaussian

Estimator = Literal["weighted", "stratified", "plain"]
ESTIMATORS: tuple[str, ...] = get_args(Estimator)
KERNEL_SCALES = (0.2, 0.4, 1.0, 2.0, 4.0, 10.0)


@dataclass(frozen=True)
class Aggregate:
    """log q(z) of each code of the batch, and log q(z_j) of each of its latents."""

    joint: Float[Tensor, "batch"]
    marginals: Float[Tensor, "batch latents"]


def aggregate(
    posterior: Distribution, z: Float[Tensor, "batch latents"], items: int, estimator: Estimator
) -> Aggregate:
    """Log-densities of the aggregate posterior at codes z_i ~ q(z|x_i), weighted sums of q(z_i|x_k) over the batch.

    Args:
        posterior: The posteriors of the batch, factorised or Gaussian with a full covariance.
        z: One sample of each posterior.
        items: The number of items in the data set.
        estimator: The weights, see `log_weights`.
    """
    pairs = _repeated(len(z), z)
    if isinstance(posterior, FullGaussian):
        latents, whole = posterior.marginals.latent_log_prob(pairs), posterior.log_prob(pairs)
    elif isinstance(posterior, FactorisedDistribution):
        latents = posterior.latent_log_prob(pairs)
        whole = latents.sum(-1)
    else:
        raise ConfigurationError(
            f"the aggregate posterior needs a factorised or a Gaussian posterior, got {type(posterior).__name__}."
        )
    weights = log_weights(z, items, estimator)
    return Aggregate(torch.logsumexp(whole + weights, 1), torch.logsumexp(latents + weights[..., None], 1))


def log_weights(z: Float[Tensor, "batch latents"], items: int, estimator: Estimator) -> Float[Tensor, "batch batch"]:
    """The log of the weight of q(z_i|x_k) in q(z_i), for a batch of m out of n items.

    weighted: 1/(nm), minibatch weighted sampling (eq. 4.29), a lower bound in expectation.
    stratified: 1/n for k = i, (n-1)/(n(m-1)) for others: unbiased, and exact if the batch holds all items. It is
        minibatch stratified sampling (Chen et al., 2018, appendix C.2) averaged over the orders of the batch.
    plain: 1/m. disentanglement_lib omits the 1/m, too, which shifts every logarithm by log m.
    """
    batch = len(z)
    # A held-out batch may be larger than the training set.
    items = max(items, batch)
    if estimator == "weighted":
        return z.new_full((batch, batch), -math.log(items * batch))
    if estimator == "plain" or batch == 1:
        return z.new_full((batch, batch), -math.log(batch if estimator == "plain" else items))
    others = math.log((items - 1) / (items * (batch - 1)))
    own = torch.eye(batch, dtype=torch.bool, device=z.device)
    return torch.where(own, -math.log(items), others).to(z.dtype)


def log_mixture(components: Distribution, z: Float[Tensor, "codes latents"]) -> Float[Tensor, "codes"]:
    """The log of the mean density of the components; a distribution shared by all items is its only component."""
    count = len(components.mean) if components.mean.ndim > 1 else 1
    return torch.logsumexp(components.log_prob(_repeated(count, z)), 1) - math.log(count)


def latent_mmd(one: Float[Tensor, "codes latents"], other: Float[Tensor, "others latents"]) -> Float[Tensor, "latents"]:
    """An unbiased estimate of the squared maximum mean discrepancy between two sets of at least two codes.

    Kernels are inverse multiquadratic (Mathieu et al., section 6.3). Terms within a set skip the similarity of an item
    to itself, so the estimate may be negative.
    """
    return _within(one) + _within(other) - 2 * _kernel(one, other).mean((0, 1))


def _within(codes: Tensor) -> Tensor:
    count = len(codes)
    # An item's similarity to itself is 1 for each scale.
    return (_kernel(codes, codes).sum((0, 1)) - count * len(KERNEL_SCALES)) / (count * (count - 1))


def _kernel(one: Tensor, other: Tensor) -> Tensor:
    """The sum over scales C of C / (C + (a - b)^2), for every pair and latent."""
    squares = (one[:, None] - other).square()
    return sum((scale / (scale + squares) for scale in KERNEL_SCALES), torch.zeros_like(squares))


def _repeated(count: int, z: Tensor) -> Float[Tensor, "codes count latents"]:
    """Each code once for each of `count` components."""
    return z[:, None].expand(-1, count, -1)
