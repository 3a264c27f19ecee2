"""Closed forms of the linear iVAE, x ~ N(W z + b, gamma I) with z ~ N(prior mean, diag(prior variance)) given u.

Bonheme, section 5.2. The posterior is diagonal. Each example has its own prior, because the prior is a function of the
condition u. With a prior of N(0, 1) these are the forms of `vaescope.numerics.linear`. A latent has no scale of its
own: dividing its code by c and multiplying its column of W by c changes nothing, so only ratios of variances have a
meaning.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.numerics import gaussian, linear
from vaescope.numerics.linear import Codes, Items, Loadings, Offset, PerItem, Scalar


def elbo(
    x: Items,
    loadings: Loadings,
    offset: Offset,
    gamma: Scalar,
    mean: Codes,
    variance: Codes,
    prior_mean: Codes,
    prior_variance: Codes,
) -> PerItem:
    """E log p(x|z) - KL(posterior || prior) of each example, in nats, with every constant (eq. 5.1 to 5.3).

    Eq. 5.3 leaves out the constant -dimensions * log(2 pi) / 2.
    """
    reconstruction = linear.expected_log_likelihood(x, loadings, offset, gamma, mean, variance.diag_embed())
    return reconstruction - gaussian.kl(mean, variance.log(), prior_mean, prior_variance.log()).sum(-1)


def posterior_variance(loadings: Loadings, gamma: Scalar, prior_variance: Codes) -> Codes:
    """1 / (|w_j|^2 / gamma + 1 / prior variance_j), the optimal diagonal posterior for a prior (eq. 5.7, 5.13)."""
    return 1 / (loadings.square().sum(0) / gamma + 1 / prior_variance)


def posterior_mean(
    x: Items, loadings: Loadings, offset: Offset, gamma: Scalar, prior_mean: Codes, prior_variance: Codes
) -> Codes:
    """(W^T W / gamma + P^-1)^-1 (W^T (x - b) / gamma + P^-1 prior mean), P = diag(prior variance) (eq. 5.9, 5.14)."""
    precision = loadings.T @ loadings / gamma + (1 / prior_variance).diag_embed()
    target = (x - offset) @ loadings / gamma + prior_mean / prior_variance
    solved: Tensor = torch.linalg.solve(precision, target.unsqueeze(-1))
    return solved.squeeze(-1)


def optimal_prior_variance(mean: Codes, variance: Codes, prior_mean: Codes) -> Codes:
    """The optimal prior variance for the posterior of one example: variance + (mean - prior mean)^2 (eq. 5.5, 5.12).

    The optimal prior mean is the posterior mean (eq. 5.4), and the prior variance then is the posterior's (eq. 5.6).
    Examples that share their u share their prior: its moments are those of the mixture of their posteriors, so that the
    right-hand sides are averaged over these examples.
    """
    return variance + (mean - prior_mean).square()


def stationary_variance(mean: Codes, loadings: Loadings, gamma: Scalar) -> Codes:
    """The posterior variance if it and the prior of mean 0 are both optimal for a mean (eq. 5.12 and 5.13 together).

    It is the positive root of 1 / variance = |w_j|^2 / gamma + 1 / (variance + mean_j^2). No column of W may be zero: a
    latent that is not used has the same ELBO with any variance.
    """
    return _noise_share(_signal(mean, loadings, gamma)) * gamma / loadings.square().sum(0)


def latent_price(mean: Codes, loadings: Loadings, gamma: Scalar) -> Codes:
    """What each latent takes from the ELBO, in nats, if its variance and the prior of mean 0 are optimal (eq. 5.15).

    Half of log((variance_j + mean_j^2) |w_j|^2 / gamma + 1) is the divergence, and half of
    mean_j^2 / (mean_j^2 + variance_j) what the noise costs the reconstruction, both at `stationary_variance`. The sum
    is 0 for a latent with a mean of 0 or a column of zeros, and positive for any other (theorem 5.2.2). For a small
    mean it is |mean_j| |w_j| / sqrt(gamma), so that small means become 0, as in the lasso.
    """
    signal = _signal(mean, loadings, gamma)
    share = _noise_share(signal)
    return 0.5 * (torch.log1p(signal * (signal + (signal.square() + 4).sqrt()) / 2) + share)


def reduced_elbo(x: Items, loadings: Loadings, offset: Offset, gamma: Scalar, mean: Codes) -> PerItem:
    """The ELBO as a function of the mean alone, the rest being optimal for it (eq. 5.15 and 5.23 to 5.25), in nats.

    Eq. 5.22 and 5.23 lack a division by gamma, which eq. 5.15, 5.24 and 5.25 have.
    """
    no_noise = torch.zeros_like(mean).diag_embed()
    reconstruction = linear.expected_log_likelihood(x, loadings, offset, gamma, mean, no_noise)
    return reconstruction - latent_price(mean, loadings, gamma).sum(-1)


def shrunk_variance(variance: Codes, loadings: Loadings, gamma: Scalar, rounds: int) -> Codes:
    """The variance after `rounds` of setting the prior to the posterior (eq. 5.4, 5.6) and optimising it (eq. 5.8).

    1 / variance grows by |w_j|^2 / gamma in each round, so there is no maximum (theorem 5.2.1): the variance goes to 0.
    """
    return 1 / (1 / variance + rounds * loadings.square().sum(0) / gamma)


def learned_mean_supremum(x: Items, loadings: Loadings, offset: Offset, gamma: Scalar) -> PerItem:
    """The bound that the ELBO approaches if the prior's mean and variance are learned for each example, in nats.

    It is the log-likelihood of the least-squares code (eq. 5.10) without noise and without a rate; theorem 5.2.1 says
    that no parameters reach it.
    """
    mean = (x - offset) @ torch.linalg.pinv(loadings).T
    no_noise = torch.zeros_like(mean).diag_embed()
    return linear.expected_log_likelihood(x, loadings, offset, gamma, mean, no_noise)


def thresholded_prior_variance(
    second_moment: Float[Tensor, "*conditions latents"], loadings: Loadings, gamma: Scalar
) -> Float[Tensor, "*conditions latents"]:
    """The optimal variance of a prior of mean 0, if the columns of W are orthogonal: max(t_j - gamma, 0) / |w_j|^2.

    t_j is the mean of (w_j^T (x - b))^2 / |w_j|^2 over the examples of one condition. The columns being orthogonal, the
    diagonal posterior is exact and the ELBO the likelihood of N(b, W P W^T + gamma I), whose variance along w_j is
    P_jj |w_j|^2 + gamma. So a latent is active exactly for the conditions under which the data vary by more than gamma
    along its column; elsewhere its prior and its posterior shrink to 0 together (propositions 5.2.1 and 5.2.2).
    """
    return (second_moment - gamma).clamp(min=0) / loadings.square().sum(0)


def second_moment(x: Items, loadings: Loadings, offset: Offset) -> Codes:
    """(w_j^T (x - b))^2 / |w_j|^2, the square of each example along each column of W."""
    return ((x - offset) @ loadings).square() / loadings.square().sum(0)


def _signal(mean: Codes, loadings: Loadings, gamma: Scalar) -> Codes:
    """|mean_j| |w_j| / sqrt(gamma): how far the mean moves the reconstruction, in units of its noise."""
    return mean.abs() * (loadings.square().sum(0) / gamma).sqrt()


def _noise_share(signal: Codes) -> Codes:
    """variance_j |w_j|^2 / gamma at `stationary_variance`, which is mean_j^2 / (mean_j^2 + variance_j)."""
    return 2 * signal / (signal + (signal.square() + 4).sqrt())
