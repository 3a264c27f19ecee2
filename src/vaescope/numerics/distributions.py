"""Distributions over codes as frozen values: mean, variance, sample, log-density and divergence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.numerics import gaussian
from vaescope.numerics.gaussian import Cholesky, Codes, Examples

MAX_NOISE = 8.0  # standard deviations; larger noise has a probability below 1e-14
TABLE_NODES = 1025


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

    mean: Codes
    log_variance: Codes

    @property
    def variance(self) -> Codes:
        """The variance of each latent."""
        return torch.exp(self.log_variance)

    def sample(self, noise: Codes) -> Codes:
        """One code per row of standard noise (Bonheme, eq. 2.16); a single prior accepts any number of rows."""
        return gaussian.reparameterise(self.mean.expand_as(noise), self.log_variance.expand_as(noise), noise)

    def log_prob(self, z: Codes) -> Examples:
        """log N(z; mean, variance) (Bonheme, eq. 2.15)."""
        return self.latent_log_prob(z).sum(-1)

    def latent_log_prob(self, z: Codes) -> Codes:
        """log N(z_j; mean_j, variance_j) of each latent."""
        return gaussian.log_density(z, self.mean, self.log_variance)

    def latent_kl(self, prior: DiagonalGaussian) -> Codes:
        """KL(self || prior) of each latent (Bonheme, eq. 2.18)."""
        return gaussian.kl(self.mean, self.log_variance, prior.mean, prior.log_variance)

    def kl(self, prior: DiagonalGaussian) -> Examples:
        """KL(self || prior) of each example (Bonheme, eq. 2.18)."""
        return self.latent_kl(prior).sum(-1)


@dataclass(frozen=True)
class FullGaussian:
    """N(mean, A A^T) with A lower triangular and its diagonal positive, one for each example."""

    mean: Codes
    cholesky: Cholesky

    @property
    def covariance(self) -> Cholesky:
        """A A^T."""
        return self.cholesky @ self.cholesky.mT

    @property
    def variance(self) -> Codes:
        """The variance of each latent: the diagonal of the covariance."""
        return self.cholesky.square().sum(-1)

    @property
    def marginals(self) -> DiagonalGaussian:
        """The marginal distributions of the latents."""
        return DiagonalGaussian(self.mean, self.variance.log())

    def sample(self, noise: Codes) -> Codes:
        """One code per row of standard noise (Bonheme, eq. 2.16)."""
        return gaussian.full_reparameterise(self.mean, self.cholesky, noise)

    def log_prob(self, z: Codes) -> Examples:
        """log N(z; mean, A A^T) (Bonheme, eq. 2.15)."""
        return gaussian.full_log_density(z, self.mean, self.cholesky)

    def kl_to(self, prior: Distribution) -> Examples | None:
        """KL(self || prior) of each example to a diagonal Gaussian (Bonheme, eq. 2.18); None to any other prior."""
        if not isinstance(prior, DiagonalGaussian):
            return None
        # The divergence is the same in units of the prior, which is standard there.
        unit = torch.exp(-0.5 * prior.log_variance)
        return gaussian.full_kl_to_standard((self.mean - prior.mean) * unit, self.cholesky * unit.unsqueeze(-1))


@dataclass(frozen=True)
class Point:
    """All mass at the mean: the code of a deterministic autoencoder, which has no rate."""

    mean: Codes

    @property
    def variance(self) -> Codes:
        """Zero."""
        return torch.zeros_like(self.mean)

    def sample(self, noise: Tensor | None = None) -> Codes:
        """The mean; the noise is ignored."""
        return self.mean

    def log_prob(self, z: Codes) -> Examples:
        """The log of the mass at z: 0 at the mean and minus infinity elsewhere."""
        return torch.where((z == self.mean).all(-1), 0.0, -torch.inf).to(self.mean)


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

    def log_prob(self, z: Codes) -> Examples:
        """log p(z)."""
        parts = gaussian.log_density(_for_each(self.means, z), self.means, self.log_variances).sum(-1)
        return torch.logsumexp(parts + self.log_weights, -1)

    def sample(self, noise: Codes) -> Codes:
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

    def latent_log_prob(self, z: Codes) -> Codes:
        """log p(z_j) of each latent."""
        zero = torch.zeros_like(self.log_variances)
        parts = gaussian.log_density(_for_each(zero, z), zero, self.log_variances)
        return torch.logsumexp(parts + self.log_weights[:, None], -2)

    def log_prob(self, z: Codes) -> Examples:
        """log p(z)."""
        return self.latent_log_prob(z).sum(-1)

    def sample(self, noise: Codes) -> Codes:
        """One code per row of standard noise; each number also selects the component of its latent."""
        component, rest = divide(noise, self.log_weights)
        deviations = (0.5 * self.log_variances).exp()
        return deviations[component, torch.arange(noise.shape[-1], device=noise.device)] * rest


@dataclass(frozen=True)
class StudentProduct:
    """Independent Student-t latents, centred and of unit scale; N(0, 1) where the mask is 0."""

    mask: Float[Tensor, "latents"]
    degrees: float
    log_constant: float
    table: Float[Tensor, "two nodes"]

    @property
    def mean(self) -> Float[Tensor, "latents"]:
        """The centre, 0."""
        return torch.zeros_like(self.mask)

    @property
    def variance(self) -> Float[Tensor, "latents"]:
        """degrees / (degrees - 2); infinite for at most two degrees of freedom."""
        value = self.degrees / (self.degrees - 2) if self.degrees > 2 else math.inf
        return torch.where(self.mask > 0, value, torch.ones_like(self.mask))

    def latent_log_prob(self, z: Codes) -> Codes:
        """log p(z_j) of each latent."""
        student = self.log_constant - 0.5 * (self.degrees + 1) * torch.log1p(z.square() / self.degrees)
        zero = torch.zeros_like(z)
        return torch.where(self.mask > 0, student, gaussian.log_density(z, zero, zero))

    def log_prob(self, z: Codes) -> Examples:
        """log p(z)."""
        return self.latent_log_prob(z).sum(-1)

    def sample(self, noise: Codes) -> Codes:
        """One code per row of standard normal noise; each latent is the quantile of its column."""
        return torch.where(self.mask > 0, _quantile(noise, self.table.to(noise.dtype)), noise)


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


def full_precision(values: Tensor) -> Tensor:
    """Values in at least float32, because 16 bits are too few for densities and divergences."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


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


def log_normaliser(degrees: float) -> float:
    """Log of the normaliser of the Student-t density; stable for large degrees of freedom, too."""
    from scipy.special import betaln

    return -float(betaln(degrees / 2, 0.5)) - 0.5 * math.log(degrees)


def quantile_table(degrees: float) -> Float[Tensor, "two nodes"]:
    """Table of the map from a normal number to the Student-t quantile of the same probability.

    Rows: asinh of the quantile, and its slope, at `TABLE_NODES` equal steps from 0 to `MAX_NOISE`; the map is odd.
    asinh makes heavy tails, which grow exponentially, smooth enough for a cubic.
    """
    from scipy.special import betaincinv, erf, erfc

    normal = np.linspace(0, MAX_NOISE, TABLE_NODES)
    # t^2 / (degrees + t^2) has a beta distribution; each tail is inverted from the side on which it is exact.
    inner = betaincinv(0.5, degrees / 2, erf(normal / math.sqrt(2)))
    outer = betaincinv(degrees / 2, 0.5, erfc(normal / math.sqrt(2)))
    near = normal < 1
    inner, outer = np.where(near, inner, 1 - outer), np.where(near, 1 - inner, outer)
    quantile = np.sqrt(degrees * inner / outer)
    log_slope = -0.5 * (normal**2 + gaussian.LOG_TWO_PI) - log_normaliser(degrees)
    log_slope += 0.5 * (degrees + 1) * np.log1p(quantile**2 / degrees) - 0.5 * np.log1p(quantile**2)
    return torch.tensor(np.stack([np.arcsinh(quantile), np.exp(log_slope)]), dtype=torch.get_default_dtype())


def _quantile(noise: Tensor, table: Tensor) -> Tensor:
    """Cubic Hermite interpolation between the nodes of the table."""
    step = MAX_NOISE / (TABLE_NODES - 1)
    place = noise.abs().clamp(max=MAX_NOISE) / step
    left = place.floor().clamp(max=TABLE_NODES - 2)
    part, index = place - left, left.long()
    value, next_value = table[0][index], table[0][index + 1]
    slope, next_slope = table[1][index] * step, table[1][index + 1] * step
    rise = next_value - value
    bend = part * (3 * rise - 2 * slope - next_slope + part * (slope + next_slope - 2 * rise))
    return noise.sign() * torch.sinh(value + part * (slope + bend))
