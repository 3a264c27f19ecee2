"""Distributions over codes as small frozen values: mean, variance, sample, log-probability, divergence."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.numerics import gaussian


@dataclass(frozen=True)
class DiagonalGaussian:
    """N(mean, diag(variance)), one for each example; a posterior or a prior."""

    mean: Float[Tensor, "*batch latents"]
    log_variance: Float[Tensor, "*batch latents"]

    @property
    def variance(self) -> Float[Tensor, "*batch latents"]:
        """The variance of each latent."""
        return torch.exp(self.log_variance)

    def sample(self, noise: Float[Tensor, "*batch latents"]) -> Float[Tensor, "*batch latents"]:
        """A code for each row of standard noise (Bonheme, eq. 2.16)."""
        return gaussian.reparameterise(self.mean, self.log_variance, noise)

    def log_prob(self, z: Float[Tensor, "*batch latents"]) -> Float[Tensor, "*batch"]:
        """log N(z; mean, variance) (Bonheme, eq. 2.15)."""
        return gaussian.log_density(z, self.mean, self.log_variance).sum(-1)

    def latent_log_prob(self, z: Float[Tensor, "*batch latents"]) -> Float[Tensor, "*batch latents"]:
        """log N(z_j; mean_j, variance_j) of each latent."""
        return gaussian.log_density(z, self.mean, self.log_variance)

    def latent_kl(self, prior: DiagonalGaussian) -> Float[Tensor, "*batch latents"]:
        """KL(self || prior) of each latent (Bonheme, eq. 2.18)."""
        return gaussian.kl(self.mean, self.log_variance, prior.mean, prior.log_variance)

    def kl(self, prior: DiagonalGaussian) -> Float[Tensor, "*batch"]:
        """KL(self || prior) of each example (Bonheme, eq. 2.18)."""
        return self.latent_kl(prior).sum(-1)


@dataclass(frozen=True)
class Point:
    """All mass on the mean: the code of a deterministic autoencoder, which carries no rate."""

    mean: Float[Tensor, "*batch latents"]

    @property
    def variance(self) -> Float[Tensor, "*batch latents"]:
        """Zero."""
        return torch.zeros_like(self.mean)

    def sample(self, noise: Tensor | None = None) -> Float[Tensor, "*batch latents"]:
        """The mean, whatever the noise."""
        return self.mean


def full_precision(values: Tensor) -> Tensor:
    """At least float32: densities and divergences are not computed in 16 bits."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values
