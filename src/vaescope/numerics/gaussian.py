"""Gaussian densities, divergences and sampling (Bonheme, section 2.7)."""

from __future__ import annotations

import math
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

LOG_TWO_PI = math.log(2 * math.pi)

Codes: TypeAlias = Float[Tensor, "*batch latents"]
# One for each code, or one for all.
Parameters: TypeAlias = Float[Tensor, "*#batch latents"]
Cholesky: TypeAlias = Float[Tensor, "*batch latents latents"]
Examples: TypeAlias = Float[Tensor, "*batch"]


def log_density(x: Codes, mean: Parameters, log_variance: Parameters) -> Codes:
    """log N(x_j; mean_j, variance_j) of each coordinate (eq. 2.15 with a diagonal covariance)."""
    return -0.5 * (LOG_TWO_PI + log_variance + (x - mean).square() * torch.exp(-log_variance))


def pairwise_log_density(
    x: Float[Tensor, "points latents"],
    mean: Float[Tensor, "codes latents"],
    log_variance: Float[Tensor, "codes latents"],
) -> Float[Tensor, "points codes"]:
    """log N(x_i; mean_k, variance_k) of each pair, summed over the coordinates, as a product of matrices.

    The square is expanded, which needs double precision.
    """
    x, mean, log_variance = x.double(), mean.double(), log_variance.double()
    precision = torch.exp(-log_variance)
    of_codes = (LOG_TWO_PI + log_variance + mean.square() * precision).sum(-1)
    left = torch.cat([x.square(), -2 * x], dim=-1)
    right = torch.cat([precision, mean * precision], dim=-1)
    return -0.5 * (of_codes + left @ right.T)


def full_log_density(x: Codes, mean: Parameters, cholesky: Float[Tensor, "*#batch latents latents"]) -> Examples:
    """log N(x; mean, A A^T) with A the lower Cholesky factor (eq. 2.15)."""
    whitened = _solve(cholesky, x - mean)
    return -0.5 * (x.shape[-1] * LOG_TWO_PI + whitened.square().sum(-1)) - _half_log_det(cholesky)


def kl(mean: Codes, log_variance: Codes, other_mean: Parameters, other_log_variance: Parameters) -> Codes:
    """KL(N(mean, variance) || N(other_mean, other_variance)) of each coordinate (eq. 2.18, diagonal)."""
    difference = log_variance - other_log_variance
    distance = (mean - other_mean).square() * torch.exp(-other_log_variance)
    return 0.5 * (torch.expm1(difference) - difference + distance)


def kl_to_standard(mean: Codes, log_variance: Codes) -> Codes:
    """KL(N(mean, variance) || N(0, 1)) of each coordinate (eq. 2.19, diagonal)."""
    return 0.5 * (torch.expm1(log_variance) - log_variance + mean.square())


def full_kl_to_standard(mean: Codes, cholesky: Cholesky) -> Examples:
    """KL(N(mean, A A^T) || N(0, I)) (eq. 2.19)."""
    trace = cholesky.square().sum((-2, -1))
    return 0.5 * (trace + mean.square().sum(-1) - mean.shape[-1]) - _half_log_det(cholesky)


def reparameterise(mean: Codes, log_variance: Codes, noise: Codes) -> Codes:
    """A sample of N(mean, variance) from standard noise (eq. 2.16, diagonal)."""
    return mean + torch.exp(0.5 * log_variance) * noise


def full_reparameterise(mean: Codes, cholesky: Cholesky, noise: Codes) -> Codes:
    """A sample of N(mean, A A^T) from standard noise (eq. 2.16)."""
    return mean + (cholesky @ noise.unsqueeze(-1)).squeeze(-1)


def entropy(log_variance: Codes) -> Codes:
    """Differential entropy, in nats, of each coordinate of a diagonal Gaussian."""
    return 0.5 * (1 + LOG_TWO_PI + log_variance)


def _solve(cholesky: Tensor, vector: Tensor) -> Tensor:
    solved: Tensor = torch.linalg.solve_triangular(cholesky, vector.unsqueeze(-1), upper=False)
    return solved.squeeze(-1)


def _half_log_det(cholesky: Tensor) -> Tensor:
    return cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)
