"""The effect of beta on the ELBO: a maximum-entropy term and a scaled prior, no rotation (Mathieu et al., 2019)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from vaescope.numerics import gaussian, linear

ITEMS, DIMENSIONS, LATENTS = 4, 5, 3
seeds = st.integers(0, 10_000)
betas = st.floats(0.2, 8.0)
quick = settings(max_examples=25, deadline=None)


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def factor(seed: int) -> Tensor:
    """A lower Cholesky factor."""
    return draw(LATENTS, LATENTS, seed=seed).tril(-1) + (0.3 + draw(LATENTS, seed=seed + 1).abs()).diag()


def rotation(size: int, seed: int) -> Tensor:
    """A random orthogonal matrix."""
    return torch.linalg.qr(draw(size, size, seed=seed)).Q


class Case:
    """A linear decoder, a Gaussian posterior with a full covariance for each item, and a Gaussian prior."""

    def __init__(self, seed: int) -> None:
        self.x, self.mean = draw(ITEMS, DIMENSIONS, seed=seed), draw(ITEMS, LATENTS, seed=seed + 1)
        self.loadings, self.offset = draw(DIMENSIONS, LATENTS, seed=seed + 2), draw(DIMENSIONS, seed=seed + 3)
        self.gamma = 0.7
        self.cholesky = torch.stack([factor(seed + 10 * item) for item in range(ITEMS)])
        self.prior = factor(seed + 5)

    def target(self, mean: Tensor, cholesky: Tensor, loadings: Tensor, prior: Tensor, beta: float) -> Tensor:
        """E log p(x|z) - beta KL(q || N(0, prior prior^T)) of each item (eq. 2)."""
        covariance = cholesky @ cholesky.mT
        # With beta = 0 what is left of the ELBO is the reconstruction.
        reconstruction = linear.elbo(self.x, loadings, self.offset, self.gamma, mean, covariance, 0.0)
        normal = MultivariateNormal(torch.zeros(LATENTS, dtype=torch.float64), scale_tril=prior)
        rate = kl_divergence(MultivariateNormal(mean, scale_tril=cholesky), normal)
        return reconstruction - beta * rate


def log_normaliser(prior: Tensor, beta: float) -> float:
    """log of the integral of N(z; 0, prior prior^T)^beta, by quadrature along the principal axes."""
    total = 0.0
    for deviation in torch.linalg.svdvals(prior).tolist():
        normal = stats.norm(scale=deviation)
        reach = 40 * deviation / math.sqrt(min(beta, 1))
        # The integral may be as small as 1e-8: the relative error is requested.
        value, _ = integrate.quad(
            lambda z, normal=normal: normal.pdf(z) ** beta, -reach, reach, points=[0], limit=200, epsabs=0, epsrel=1e-10
        )
        total += math.log(value)
    return total


@quick
@given(seeds, betas)
def test_theorem_1_for_gaussians(seed: int, beta: float) -> None:
    case = Case(seed)
    left = case.target(case.mean, case.cholesky, case.loadings, case.prior, beta)
    annealed = case.target(case.mean, case.cholesky, case.loadings, case.prior / math.sqrt(beta), 1.0)
    entropy = MultivariateNormal(case.mean, scale_tril=case.cholesky).entropy()
    right = annealed + (beta - 1) * entropy + log_normaliser(case.prior, beta)
    torch.testing.assert_close(left, right, atol=1e-6, rtol=1e-6)


PRIORS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "laplace": stats.laplace(scale=0.8).logpdf,
    "student": stats.t(df=3).logpdf,
    "two modes": lambda z: np.logaddexp(
        stats.norm(-2, 0.5).logpdf(z) + math.log(0.3), stats.norm(1, 0.8).logpdf(z) + math.log(0.7)
    ),
}


@pytest.mark.parametrize("beta", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("name", PRIORS)
def test_theorem_1_for_other_priors_and_a_curved_decoder_by_quadrature(name: str, beta: float) -> None:
    log_prior, x, mean, deviation = PRIORS[name], 0.4, 0.3, 0.6
    z = np.linspace(mean - 12 * deviation, mean + 12 * deviation, 400_001)
    posterior = stats.norm(mean, deviation)
    weight, log_posterior = posterior.pdf(z), posterior.logpdf(z)

    def expected(values: np.ndarray) -> float:
        return float(integrate.trapezoid(weight * values, z))

    constant = math.log(sum(_integral(log_prior, beta, *side) for side in ((-np.inf, 0.0), (0.0, np.inf))))
    reconstruction = expected(stats.norm(np.sin(2 * z), 0.5).logpdf(x))
    left = reconstruction - beta * expected(log_posterior - log_prior(z))
    annealed = reconstruction - expected(log_posterior - (beta * log_prior(z) - constant))
    assert left == pytest.approx(annealed + (beta - 1) * float(posterior.entropy()) + constant, abs=1e-7)
    if beta != 1:
        assert abs(left - annealed) > 0.01


def _integral(log_prior: Callable[[np.ndarray], np.ndarray], beta: float, low: float, high: float) -> float:
    return float(integrate.quad(lambda z: np.exp(beta * log_prior(z)), low, high, epsabs=1e-11, limit=400)[0])


@quick
@given(seeds, betas)
@example(4075, 8.0)  # the integral is as small as the absolute error that quadrature stops at by default
def test_corollary_1_rescaled_networks_and_an_entropy_term(seed: int, beta: float) -> None:
    case, scale = Case(seed), math.sqrt(beta)
    left = case.target(case.mean, case.cholesky, case.loadings, case.prior, beta)
    rescaled = case.target(scale * case.mean, scale * case.cholesky, case.loadings / scale, case.prior, 1.0)
    log_volume = 2 * (scale * case.cholesky).diagonal(dim1=-2, dim2=-1).log().sum(-1)
    constant = LATENTS * (beta - 1) / 2 * (1 + math.log(2 * math.pi / beta)) + log_normaliser(case.prior, beta)
    right = rescaled + (beta - 1) / 2 * log_volume + constant
    torch.testing.assert_close(left, right, atol=1e-6, rtol=1e-6)


@quick
@given(seeds, betas, st.floats(0.3, 3.0))
def test_theorem_2_no_rotation_changes_the_target_under_an_isotropic_prior(
    seed: int, beta: float, deviation: float
) -> None:
    case, turn = Case(seed), rotation(LATENTS, seed + 7)
    prior = deviation * torch.eye(LATENTS, dtype=torch.float64)
    covariance = turn @ case.cholesky @ case.cholesky.mT @ turn.T
    left = case.target(case.mean, case.cholesky, case.loadings, prior, beta)
    turned = case.target(case.mean @ turn.T, torch.linalg.cholesky(covariance), case.loadings @ turn.T, prior, beta)
    torch.testing.assert_close(left, turned)


def curved_target(mean: Tensor, cholesky: Tensor, undo: Tensor, beta: float) -> float:
    """Eq. 2 for two latents and a decoder that is not linear, by Gauss-Hermite quadrature."""
    points, weights = np.polynomial.hermite_e.hermegauss(60)
    grid = torch.cartesian_prod(torch.from_numpy(points), torch.from_numpy(points))
    weight = torch.from_numpy(np.outer(weights, weights).ravel()) / (2 * math.pi)
    codes = (mean + grid @ cholesky.T) @ undo.T
    decoded = torch.stack([codes[:, 0].sin(), torch.tanh(codes.sum(1)), codes[:, 1].square()], 1)
    error = (decoded - torch.tensor([0.2, -0.4, 0.9], dtype=torch.float64)).square().sum(1)
    return float(-weight @ error - beta * gaussian.full_kl_to_standard(mean, cholesky))


def test_theorem_2_holds_for_a_curved_decoder() -> None:
    mean, cholesky = draw(2, seed=0), torch.tensor([[0.5, 0.0], [0.2, 0.3]], dtype=torch.float64)
    turn = rotation(2, 1)
    turned = torch.linalg.cholesky(turn @ cholesky @ cholesky.T @ turn.T)
    straight = curved_target(mean, cholesky, torch.eye(2, dtype=torch.float64), 4.0)
    assert curved_target(turn @ mean, turned, turn.T, 4.0) == pytest.approx(straight, abs=1e-6)


def test_theorem_2_needs_the_isotropic_prior_and_the_full_covariance() -> None:
    case, turn = Case(0), rotation(LATENTS, 7)
    covariance = turn @ case.cholesky @ case.cholesky.mT @ turn.T
    mean, loadings = case.mean @ turn.T, case.loadings @ turn.T
    identity = torch.eye(LATENTS, dtype=torch.float64)
    shaped = case.target(case.mean, case.cholesky, case.loadings, case.prior, 2.0)
    turned = case.target(mean, torch.linalg.cholesky(covariance), loadings, case.prior, 2.0)
    assert (turned - shaped).abs().max() > 0.1
    straight = case.target(case.mean, case.cholesky, case.loadings, identity, 2.0)
    diagonal = covariance.diagonal(dim1=-2, dim2=-1).sqrt().diag_embed()
    assert (case.target(mean, diagonal, loadings, identity, 2.0) - straight).abs().max() > 0.1
