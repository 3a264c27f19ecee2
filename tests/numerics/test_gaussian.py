"""Gaussian formulas against torch.distributions, against Monte Carlo, and at their limits."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import MultivariateNormal, Normal, kl_divergence

from vaescope.numerics import gaussian

ITEMS, LATENTS = 5, 3
DRAWS = 40_000


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def factor(*batch: int, seed: int) -> Tensor:
    """Lower Cholesky factors with a positive diagonal."""
    lower = draw(*batch, LATENTS, LATENTS, seed=seed).tril(-1)
    return lower + torch.diag_embed(0.5 + draw(*batch, LATENTS, seed=seed + 1).abs())


X, MEAN, LOG_VARIANCE = (draw(ITEMS, LATENTS, seed=seed) for seed in (0, 1, 2))
OTHER_MEAN, OTHER_LOG_VARIANCE = (draw(ITEMS, LATENTS, seed=seed) for seed in (3, 4))
FACTOR, OTHER_FACTOR = factor(ITEMS, seed=5), factor(ITEMS, seed=7)


def diagonal(mean: Tensor, log_variance: Tensor) -> Normal:
    return Normal(mean, torch.exp(0.5 * log_variance))


def full(mean: Tensor, cholesky: Tensor) -> MultivariateNormal:
    return MultivariateNormal(mean, scale_tril=cholesky)


def deviation(log_variance: Tensor) -> Tensor:
    """The Cholesky factor of a diagonal covariance."""
    return torch.diag_embed(torch.exp(0.5 * log_variance))


def test_log_density_equals_torch() -> None:
    expected = diagonal(MEAN, LOG_VARIANCE).log_prob(X)
    torch.testing.assert_close(gaussian.log_density(X, MEAN, LOG_VARIANCE), expected)


def test_full_log_density_equals_torch() -> None:
    expected = full(MEAN, FACTOR).log_prob(X)
    torch.testing.assert_close(gaussian.full_log_density(X, MEAN, FACTOR), expected)


def test_kl_equals_torch() -> None:
    expected = kl_divergence(diagonal(MEAN, LOG_VARIANCE), diagonal(OTHER_MEAN, OTHER_LOG_VARIANCE))
    torch.testing.assert_close(gaussian.kl(MEAN, LOG_VARIANCE, OTHER_MEAN, OTHER_LOG_VARIANCE), expected)


def test_full_kl_to_standard_equals_torch() -> None:
    unit = torch.eye(LATENTS, dtype=torch.float64).expand_as(FACTOR)
    expected = kl_divergence(full(MEAN, FACTOR), full(torch.zeros_like(MEAN), unit))
    torch.testing.assert_close(gaussian.full_kl_to_standard(MEAN, FACTOR), expected)


def test_entropies_equal_torch() -> None:
    torch.testing.assert_close(gaussian.entropy(LOG_VARIANCE), diagonal(MEAN, LOG_VARIANCE).entropy())


def test_one_distribution_broadcasts_over_a_batch() -> None:
    mean, log_variance, cholesky = OTHER_MEAN[0], OTHER_LOG_VARIANCE[0], OTHER_FACTOR[0]
    torch.testing.assert_close(gaussian.log_density(X, mean, log_variance), diagonal(mean, log_variance).log_prob(X))
    torch.testing.assert_close(gaussian.full_log_density(X, mean, cholesky), full(mean, cholesky).log_prob(X))
    expected = kl_divergence(diagonal(MEAN, LOG_VARIANCE), diagonal(mean, log_variance))
    torch.testing.assert_close(gaussian.kl(MEAN, LOG_VARIANCE, mean, log_variance), expected)


def test_kl_to_standard_is_kl_to_zero_mean_and_unit_variance() -> None:
    zero = torch.zeros_like(MEAN)
    torch.testing.assert_close(gaussian.kl_to_standard(MEAN, LOG_VARIANCE), gaussian.kl(MEAN, LOG_VARIANCE, zero, zero))


def test_full_formulas_with_a_diagonal_factor_equal_the_diagonal_formulas() -> None:
    one = deviation(LOG_VARIANCE)
    pairs = [
        (gaussian.full_log_density(X, MEAN, one), gaussian.log_density(X, MEAN, LOG_VARIANCE).sum(-1)),
        (gaussian.full_kl_to_standard(MEAN, one), gaussian.kl_to_standard(MEAN, LOG_VARIANCE).sum(-1)),
        (gaussian.full_reparameterise(MEAN, one, X), gaussian.reparameterise(MEAN, LOG_VARIANCE, X)),
    ]
    for actual, expected in pairs:
        torch.testing.assert_close(actual, expected)


def test_samples_have_the_given_mean_and_covariance() -> None:
    noise = draw(DRAWS, LATENTS, seed=11)
    mean, cholesky = MEAN[0].expand(DRAWS, -1), FACTOR[0].expand(DRAWS, -1, -1)
    wanted = FACTOR[0] @ FACTOR[0].T
    sample = gaussian.full_reparameterise(mean, cholesky, noise)
    spread = wanted.diagonal().sqrt()
    assert ((sample.mean(0) - MEAN[0]).abs() < 4 * spread / DRAWS**0.5).all()
    # The covariance of i and j has the standard error sqrt((S_ii S_jj + S_ij^2) / n).
    error = torch.sqrt((torch.outer(spread, spread).square() + wanted.square()) / DRAWS)
    assert ((torch.cov(sample.T) - wanted).abs() < 4 * error).all()


def within_four_errors(values: Tensor, expected: Tensor) -> bool:
    error = values.std(0) / len(values) ** 0.5
    return bool(((values.mean(0) - expected).abs() < 4 * error).all())


def test_diagonal_kl_and_entropy_equal_monte_carlo_estimates() -> None:
    parameters = [value.expand(DRAWS, ITEMS, LATENTS) for value in (MEAN, LOG_VARIANCE)]
    z = gaussian.reparameterise(*parameters, draw(DRAWS, ITEMS, LATENTS, seed=12))
    log_q = gaussian.log_density(z, *parameters)
    log_p = gaussian.log_density(z, OTHER_MEAN, OTHER_LOG_VARIANCE)
    assert within_four_errors(log_q - log_p, gaussian.kl(MEAN, LOG_VARIANCE, OTHER_MEAN, OTHER_LOG_VARIANCE))
    assert within_four_errors(-log_q, gaussian.entropy(LOG_VARIANCE))


def test_full_kl_to_standard_equals_a_monte_carlo_estimate() -> None:
    mean, cholesky = MEAN[0].expand(DRAWS, -1), FACTOR[0].expand(DRAWS, -1, -1)
    z = gaussian.full_reparameterise(mean, cholesky, draw(DRAWS, LATENTS, seed=13))
    log_q = gaussian.full_log_density(z, MEAN[0], FACTOR[0])
    log_p = gaussian.log_density(z, torch.zeros_like(MEAN[0]), torch.zeros_like(MEAN[0])).sum(-1)
    assert within_four_errors(log_q - log_p, gaussian.full_kl_to_standard(MEAN[0], FACTOR[0]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("extreme", [-30.0, 30.0])
def test_gradients_stay_finite_at_extreme_log_variances(extreme: float, dtype: torch.dtype) -> None:
    mean = torch.tensor([[1.5]], dtype=dtype, requires_grad=True)
    log_variance = torch.tensor([[extreme]], dtype=dtype, requires_grad=True)
    one = torch.ones_like(mean)
    values = [
        gaussian.kl_to_standard(mean, log_variance),
        gaussian.kl(mean, log_variance, one, -one * extreme),
        gaussian.log_density(one, mean, log_variance),
        gaussian.reparameterise(mean, log_variance, one),
        gaussian.entropy(log_variance),
    ]
    for value in values:
        gradients = torch.autograd.grad(value.sum(), (mean, log_variance), allow_unused=True)
        assert torch.isfinite(value).all()
        assert all(gradient is None or torch.isfinite(gradient).all() for gradient in gradients)


numbers = st.floats(-20, 20)


@settings(max_examples=200, deadline=None)
@given(numbers, numbers, numbers, numbers)
def test_kl_is_never_negative(mean: float, log_variance: float, other: float, other_log_variance: float) -> None:
    values = [torch.tensor([value], dtype=torch.float64) for value in (mean, log_variance, other, other_log_variance)]
    assert gaussian.kl(*values).item() >= 0
    assert gaussian.kl_to_standard(*values[:2]).item() >= 0


@settings(max_examples=50, deadline=None)
@given(numbers, numbers)
def test_kl_of_a_distribution_to_itself_is_exactly_zero(mean: float, log_variance: float) -> None:
    values = [torch.tensor([value], dtype=torch.float64) for value in (mean, log_variance)]
    assert gaussian.kl(*values, *values).item() == 0


def test_a_tiny_kl_keeps_its_digits_in_single_precision() -> None:
    log_variance = torch.tensor([1e-3])
    exact = 0.5 * (torch.expm1(log_variance.double()) - log_variance.double())
    actual = gaussian.kl_to_standard(torch.zeros(1), log_variance).double()
    torch.testing.assert_close(actual, exact, rtol=2e-4, atol=0)


def test_densities_of_all_pairs_are_sums_over_coordinates() -> None:
    random = torch.Generator().manual_seed(0)
    x, mean = (torch.randn(count, 6, generator=random, dtype=torch.float64) * 5 for count in (40, 30))
    log_variance = torch.randn(30, 6, generator=random, dtype=torch.float64) * 3 - 4
    expected = gaussian.log_density(x[:, None].expand(-1, 30, -1), mean, log_variance).sum(-1)
    torch.testing.assert_close(gaussian.pairwise_log_density(x, mean, log_variance), expected, rtol=1e-10, atol=1e-8)
