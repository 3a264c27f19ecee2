"""Distributions over codes as frozen values: mean, variance, sample, log-density and divergence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.numerics import gaussian


@runtime_checkable
class Distribution(Protocol):
    """A distribution over codes or over items: one for each example, or one for all."""

    @property
    def mean(self) -> Tensor:
        """The mean, in the shape of a code or of an item."""

    @property
    def variance(self) -> Tensor:
        """The variance of each latent or dimension, in the shape of the mean."""

    def sample(self, noise: Tensor, /) -> Tensor:
        """One draw for each row of noise: a function of the noise, so that the caller decides all randomness."""

    def log_prob(self, value: Tensor, /) -> Tensor:
        """The log-density of each example, summed over its latents or dimensions."""


@runtime_checkable
class FactorisedDistribution(Protocol):
    """A distribution whose latents are independent."""

    def latent_log_prob(self, z: Tensor, /) -> Tensor:
        """The log-density of each latent."""


@runtime_checkable
class ClosedFormDivergence(Protocol):
    """A posterior whose divergence from some priors has a closed form."""

    def kl_to(self, prior: Distribution, /) -> Tensor | None:
        """KL(self || prior) of each example; None without a closed form."""


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
        """One code per row of standard noise (Bonheme, eq. 2.16); a single prior accepts any number of rows."""
        return gaussian.reparameterise(self.mean.expand_as(noise), self.log_variance.expand_as(noise), noise)

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
class FullGaussian:
    """N(mean, A A^T) with A lower triangular and its diagonal positive, one for each example."""

    mean: Float[Tensor, "*batch latents"]
    cholesky: Float[Tensor, "*batch latents latents"]

    @property
    def covariance(self) -> Float[Tensor, "*batch latents latents"]:
        """A A^T."""
        return self.cholesky @ self.cholesky.mT

    @property
    def variance(self) -> Float[Tensor, "*batch latents"]:
        """The variance of each latent: the diagonal of the covariance."""
        return self.cholesky.square().sum(-1)

    @property
    def marginals(self) -> DiagonalGaussian:
        """The marginal distributions of the latents."""
        return DiagonalGaussian(self.mean, self.variance.log())

    def sample(self, noise: Float[Tensor, "*batch latents"]) -> Float[Tensor, "*batch latents"]:
        """One code per row of standard noise (Bonheme, eq. 2.16)."""
        return gaussian.full_reparameterise(self.mean, self.cholesky, noise)

    def log_prob(self, z: Float[Tensor, "*batch latents"]) -> Float[Tensor, "*batch"]:
        """log N(z; mean, A A^T) (Bonheme, eq. 2.15)."""
        return gaussian.full_log_density(z, self.mean, self.cholesky)

    def kl_to(self, prior: Distribution) -> Float[Tensor, "*batch"] | None:
        """KL(self || prior) of each example to a diagonal Gaussian (Bonheme, eq. 2.18); None to any other prior."""
        if not isinstance(prior, DiagonalGaussian):
            return None
        # The divergence is the same in units of the prior, which is standard there.
        unit = torch.exp(-0.5 * prior.log_variance)
        return gaussian.full_kl_to_standard((self.mean - prior.mean) * unit, self.cholesky * unit.unsqueeze(-1))


@dataclass(frozen=True)
class Point:
    """All mass at the mean: the code of a deterministic autoencoder, which has no rate."""

    mean: Float[Tensor, "*batch latents"]

    @property
    def variance(self) -> Float[Tensor, "*batch latents"]:
        """Zero."""
        return torch.zeros_like(self.mean)

    def sample(self, noise: Tensor | None = None) -> Float[Tensor, "*batch latents"]:
        """The mean; the noise is ignored."""
        return self.mean

    def log_prob(self, z: Float[Tensor, "*batch latents"]) -> Float[Tensor, "*batch"]:
        """The log of the mass at z: 0 at the mean and minus infinity elsewhere."""
        return torch.where((z == self.mean).all(-1), 0.0, -torch.inf).to(self.mean)


def full_precision(values: Tensor) -> Tensor:
    """Values in at least float32, because 16 bits are too few for densities and divergences."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values
