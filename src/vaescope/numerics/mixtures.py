"""Gaussian mixtures over codes; a sample is a function of one normal number per latent."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.numerics import gaussian


@dataclass(frozen=True)
class GaussianMixture:
    """sum_k weight_k N(mean_k, diag(variance_k)): one component for the whole code."""

    means: Float[Tensor, "components latents"]
    log_variances: Float[Tensor, "components latents"]
    log_weights: Float[Tensor, "components"]

    @property
    def mean(self) -> Float[Tensor, "latents"]:
        """The mean over all components."""
        return (self.log_weights.exp()[:, None] * self.means).sum(0)

    @property
    def variance(self) -> Float[Tensor, "latents"]:
        """The variance of each latent, within and between components."""
        squares = self.log_variances.exp() + (self.means - self.mean).square()
        return (self.log_weights.exp()[:, None] * squares).sum(0)

    def log_prob(self, z: Float[Tensor, "*batch latents"]) -> Float[Tensor, "*batch"]:
        """log p(z)."""
        parts = gaussian.log_density(_for_each(self.means, z), self.means, self.log_variances).sum(-1)
        return torch.logsumexp(parts + self.log_weights, -1)

    def sample(self, noise: Float[Tensor, "*batch latents"]) -> Float[Tensor, "*batch latents"]:
        """One code per row of standard noise; the first number also selects the component."""
        component, rest = divide(noise[..., :1], self.log_weights)
        chosen = component.squeeze(-1)
        rest = torch.cat([rest, noise[..., 1:]], dim=-1)
        return gaussian.reparameterise(self.means[chosen], self.log_variances[chosen], rest)


@dataclass(frozen=True)
class ScaleMixture:
    """prod_j sum_k weight_k N(z_j; 0, variance_kj): one component for each latent."""

    log_variances: Float[Tensor, "components latents"]
    log_weights: Float[Tensor, "components"]

    @property
    def mean(self) -> Float[Tensor, "latents"]:
        """Zero."""
        return torch.zeros_like(self.log_variances[0])

    @property
    def variance(self) -> Float[Tensor, "latents"]:
        """The variance of each latent over its components."""
        return (self.log_weights.exp()[:, None] * self.log_variances.exp()).sum(0)

    def latent_log_prob(self, z: Float[Tensor, "*batch latents"]) -> Float[Tensor, "*batch latents"]:
        """log p(z_j) of each latent."""
        zero = torch.zeros_like(self.log_variances)
        parts = gaussian.log_density(_for_each(zero, z), zero, self.log_variances)
        return torch.logsumexp(parts + self.log_weights[:, None], -2)

    def log_prob(self, z: Float[Tensor, "*batch latents"]) -> Float[Tensor, "*batch"]:
        """log p(z)."""
        return self.latent_log_prob(z).sum(-1)

    def sample(self, noise: Float[Tensor, "*batch latents"]) -> Float[Tensor, "*batch latents"]:
        """One code per row of standard noise; each number also selects the component of its latent."""
        component, rest = divide(noise, self.log_weights)
        deviations = (0.5 * self.log_variances).exp()
        return deviations[component, torch.arange(noise.shape[-1], device=noise.device)] * rest


def divide(
    noise: Float[Tensor, "*shape"], log_weights: Float[Tensor, "components"]
) -> tuple[Int[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """Turn a standard normal number into a component and an independent standard normal number.

    The probability of the number is uniform on [0, 1] and lies in the share of one component; its position within that
    share is uniform again.
    """
    weights = torch.softmax(log_weights.double(), 0)
    edges = weights.cumsum(0)
    probability = torch.special.ndtr(noise.double())
    component = (probability.unsqueeze(-1) >= edges[:-1]).sum(-1)
    rest = (probability - (edges - weights)[component]) / weights[component]
    # Half a step of float64 keeps the ends of a share from becoming infinite.
    smallest = torch.finfo(torch.float64).eps / 2
    return component, torch.special.ndtri(rest.clamp(smallest, 1 - smallest)).to(noise.dtype)


def _for_each(components: Tensor, z: Tensor) -> Tensor:
    """Each code once for each component."""
    return z.unsqueeze(-2).expand(*z.shape[:-1], *components.shape)
