"""Closed forms of the linear VAE, x ~ N(W z + b, gamma I) with z ~ N(0, I) (Bonheme, sections 4.2 and 4.3.2).

W is `loadings` (dimensions x latents), b is `offset`. With beta, beta * gamma takes the place of gamma (eq. 4.22).
"""

from __future__ import annotations

import math
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.numerics.gaussian import LOG_TWO_PI

Scalar: TypeAlias = float | Float[Tensor, ""]
Loadings: TypeAlias = Float[Tensor, "dimensions latents"]
Offset: TypeAlias = Float[Tensor, "dimensions"]
Items: TypeAlias = Float[Tensor, "*batch dimensions"]
Codes: TypeAlias = Float[Tensor, "*batch latents"]
PerItem: TypeAlias = Float[Tensor, "*batch"]
PerLatent: TypeAlias = Float[Tensor, "latents"]


def posterior_covariance(loadings: Loadings, gamma: Scalar, beta: Scalar = 1.0) -> Float[Tensor, "latents latents"]:
    """(W^T W / (beta gamma) + I)^-1, the optimal full covariance (eq. 4.6; with beta 4.23)."""
    covariance: Tensor = torch.linalg.inv(_precision(loadings, gamma, beta))
    return covariance


def diagonal_posterior_variance(loadings: Loadings, gamma: Scalar, beta: Scalar = 1.0) -> PerLatent:
    """1 / (|w_j|^2 / (beta gamma) + 1), the optimal variances of a diagonal covariance (eq. 4.11, 4.23)."""
    return spectral_variance(loadings.square().sum(0), gamma, beta)


def posterior_mean(x: Items, loadings: Loadings, offset: Offset, gamma: Scalar, beta: Scalar = 1.0) -> Codes:
    """W^T (beta gamma I + W W^T)^-1 (x - b), for full and diagonal covariances (eq. 4.8; with beta 4.24)."""
    encoder: Tensor = torch.linalg.solve(_precision(loadings, gamma, beta), loadings.T / (beta * gamma))
    return (x - offset) @ encoder.T


def spectral_variance(spectrum: PerLatent, gamma: Scalar, beta: Scalar = 1.0) -> PerLatent:
    """Posterior variances from the squared singular values of W, columns orthogonal (eq. 4.15; with beta 4.23)."""
    return 1 / (spectrum / (beta * gamma) + 1)


def spectral_gain(spectrum: PerLatent, gamma: Scalar, beta: Scalar = 1.0) -> PerLatent:
    """The factor from a coordinate of U^T (x - b) to the posterior mean, columns orthogonal (eq. 4.16, 4.24)."""
    return spectrum.sqrt() / (spectrum + beta * gamma)


def elbo(
    x: Items,
    loadings: Loadings,
    offset: Offset,
    gamma: Scalar,
    mean: Codes,
    covariance: Float[Tensor, "*#batch latents latents"],
    beta: Scalar = 1.0,
) -> PerItem:
    """E log p(x|z) - beta KL of each example for any Gaussian posterior, in nats, with every constant (eq. 4.1-4.4).

    Twice this, without the constants, is eq. 4.5 and, with beta, 4.22.
    """
    trace = covariance.diagonal(dim1=-2, dim2=-1).sum(-1)
    rate = trace + mean.square().sum(-1) - torch.logdet(covariance) - loadings.shape[1]
    return expected_log_likelihood(x, loadings, offset, gamma, mean, covariance) - 0.5 * beta * rate


def expected_log_likelihood(
    x: Items,
    loadings: Loadings,
    offset: Offset,
    gamma: Scalar,
    mean: Codes,
    covariance: Float[Tensor, "*#batch latents latents"],
) -> PerItem:
    """E log p(x|z) of each example for any Gaussian posterior, in nats, with every constant (eq. 4.4; 5.2)."""
    gamma = _like(gamma, x)
    error = (x - offset - mean @ loadings.T).square().sum(-1)
    spread = ((loadings @ covariance) * loadings).sum((-2, -1))
    return -0.5 * (len(loadings) * (LOG_TWO_PI + gamma.log()) + (error + spread) / gamma)


def full_objective(x: Items, loadings: Loadings, offset: Offset, gamma: Scalar, beta: Scalar = 1.0) -> PerItem:
    """The objective at the optimal posterior with a full covariance (eq. 4.10).

    Constants as in the text: twice the ELBO plus dimensions * log(2 pi). The text has beta = 1; for another beta, the
    posterior of eq. 4.23 and 4.24 is inserted into eq. 4.22, and the constants beta * latents cancel.
    """
    log_volume = torch.logdet(_precision(loadings, gamma, beta))
    return _objective(log_volume, x, loadings, offset, gamma, beta)


def diagonal_objective(x: Items, loadings: Loadings, offset: Offset, gamma: Scalar, beta: Scalar = 1.0) -> PerItem:
    """The objective at the optimal posterior with a diagonal covariance (eq. 4.12); constants of `full_objective`.

    The text has the diagonal of W W^T, which is invariant to rotations of the latents. Inserting eq. 4.11 into 4.5
    gives the diagonal of W^T W, which the conclusion (eq. 4.13 to 4.15) needs and which is computed here.
    """
    log_volume = torch.log1p(loadings.square().sum(0) / (beta * gamma)).sum()
    return _objective(log_volume, x, loadings, offset, gamma, beta)


def log_likelihood(x: Items, loadings: Loadings, offset: Offset, gamma: Scalar) -> PerItem:
    """log N(x; b, W W^T + gamma I), the evidence in nats, with all constants (half of eq. 4.10 less its constant)."""
    return 0.5 * (full_objective(x, loadings, offset, gamma) - x.shape[-1] * LOG_TWO_PI)


def optimal_spectrum(eigenvalues: PerLatent, gamma: Scalar, beta: Scalar = 1.0) -> PerLatent:
    """The optimal squared norms of W's columns: max(eigenvalue - beta gamma, 0).

    Along an eigenvector of the data's covariance the loss is beta (log(1 + s / (beta gamma)) + l / (s + beta gamma)),
    l the eigenvalue, s the squared norm; its slope in s vanishes at s = l - beta gamma and is positive beyond.
    """
    return (eigenvalues - beta * gamma).clamp(min=0)


def optimal_gamma(eigenvalues: Float[Tensor, "dimensions"], latents: int, beta: Scalar = 1.0) -> Float[Tensor, ""]:
    """The optimal gamma with the optimal loadings, from all eigenvalues of the data's covariance, largest first.

    With a active latents the slope of the loss in gamma has the sign of (dimensions - beta a) gamma - rest, where rest
    is the sum of all eigenvalues but the first a. The slope for the right a is the largest of these lines, so gamma is
    the smallest positive root. With beta = 1 that is the mean of the discarded eigenvalues (Tipping and Bishop, 1999,
    eq. 8). Zero means that the objective is unbounded as gamma goes to 0.
    """
    active = torch.arange(latents + 1, dtype=eigenvalues.dtype, device=eigenvalues.device)
    slope = len(eigenvalues) - beta * active
    tails = eigenvalues.flip(0).cumsum(0).flip(0)
    rest = torch.cat([tails, tails.new_zeros(1)])[: latents + 1]
    rising = slope > 0
    return (rest[rising] / slope[rising]).min()


def noise_cost(loadings: Loadings, variance: Codes) -> PerItem:
    """E |W e|^2 for e ~ N(0, diag(variance)): the cost of the noise of the code (Rolinek, eq. 17 and 22)."""
    return variance @ loadings.square().sum(0)


def cheapest_variance(loadings: Loadings, precision: Scalar) -> PerLatent:
    """The variances with minimal `noise_cost` whose -log sum to `precision` (Rolinek, eq. 22 and 23).

    Each latent then costs the same: variance_j = constant / |w_j|^2. No column may be zero.
    """
    log_norms = loadings.square().sum(0).log()
    return torch.exp(log_norms.mean() - log_norms - precision / loadings.shape[1])


def cheapest_noise_cost(loadings: Loadings, precision: Scalar) -> Float[Tensor, ""]:
    """The minimal `noise_cost`: latents * (product of the |w_j|^2 * e^-precision)^(1 / latents) (Rolinek, eq. 25, 26).

    For two latents this is 2 |w_1| |w_2| e^(-precision / 2). Rolinek has e^-C, which holds if C is the KL itself, the
    sum of the -log(variance) / 2, instead of twice that, as in eq. 23.
    """
    return noise_cost(loadings, cheapest_variance(loadings, precision))


def least_log_noise_cost(spectra: Float[Tensor, "items latents"], precision: Scalar) -> Float[Tensor, ""]:
    """The minimum over rotations of the codes of the sum over items of log `noise_cost` (Rolinek, eq. 18, theorem 2).

    Each item has its own linear decoder, whose squared singular values `spectra` holds, its own rotation and its own
    variances; the -log of all variances together sum to `precision` (eq. 19). Only this sum matters, not how the items
    share it. Every minimum has decoders with orthogonal columns.
    """
    latents = spectra.shape[1]
    return (math.log(latents) + spectra.log().mean(1)).sum() - precision / latents


def _precision(loadings: Tensor, gamma: Scalar, beta: Scalar) -> Tensor:
    identity = torch.eye(loadings.shape[1], dtype=loadings.dtype, device=loadings.device)
    return loadings.T @ loadings / (beta * gamma) + identity


def _objective(log_volume: Tensor, x: Tensor, loadings: Tensor, offset: Tensor, gamma: Scalar, beta: Scalar) -> Tensor:
    """-(m log gamma + beta log_volume + beta omega), with omega as a sum of squares (eq. 4.9, right to left)."""
    mean = posterior_mean(x, loadings, offset, gamma, beta)
    error = (x - offset - mean @ loadings.T).square().sum(-1)
    omega = error / gamma + beta * mean.square().sum(-1)
    return -(x.shape[-1] * _like(gamma, x).log() + beta * log_volume + omega)


def _like(value: Scalar, other: Tensor) -> Tensor:
    return torch.as_tensor(value, dtype=other.dtype, device=other.device)
