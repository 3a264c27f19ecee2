"""The closed forms of the linear VAE hold: against optimisers, Monte Carlo and their limits (Bonheme, 4.2, 4.3.2)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import MultivariateNormal

from vaescope.errors import ConfigurationError, DataError
from vaescope.numerics import linear
from vaescope.regime import theory

ITEMS, DIMENSIONS, LATENTS = 7, 5, 3
LOG_TWO_PI = math.log(2 * math.pi)
seeds = st.integers(0, 10_000)
gammas = st.floats(0.05, 20.0)
betas = st.floats(0.1, 10.0)
quick = settings(max_examples=25, deadline=None)


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotation(size: int, seed: int) -> Tensor:
    """A random orthogonal matrix."""
    return torch.linalg.qr(draw(size, size, seed=seed)).Q


def case(seed: int, latents: int = LATENTS) -> tuple[Tensor, Tensor, Tensor]:
    """Items, loadings and offset."""
    x, loadings = draw(ITEMS, DIMENSIONS, seed=seed), draw(DIMENSIONS, latents, seed=seed + 1)
    return x, loadings, draw(DIMENSIONS, seed=seed + 2)


def from_elbo(value: Tensor) -> Tensor:
    """The constants of eq. 4.10 and 4.12 in place of those of the ELBO."""
    return 2 * value + DIMENSIONS * LOG_TWO_PI


@quick
@given(seeds, gammas)
def test_hadamard_bounds_the_log_determinant_by_the_diagonal(seed: int, gamma: float) -> None:
    _, loadings, _ = case(seed)
    for product in (loadings.T @ loadings, loadings @ loadings.T):
        shifted = product + gamma * torch.eye(len(product), dtype=torch.float64)
        assert shifted.diagonal().log().sum() >= torch.logdet(shifted) - 1e-10


@quick
@given(seeds, gammas, betas)
def test_no_rotation_beats_principal_columns_under_a_diagonal_posterior(seed: int, gamma: float, beta: float) -> None:
    x, loadings, offset = case(seed)
    principal = loadings @ torch.linalg.svd(loadings, full_matrices=False).Vh.T
    best = linear.diagonal_objective(x, principal, offset, gamma, beta)
    rotated = linear.diagonal_objective(x, loadings @ rotation(LATENTS, seed), offset, gamma, beta)
    assert (rotated <= best + 1e-9).all()
    torch.testing.assert_close(best, linear.full_objective(x, loadings, offset, gamma, beta))


@quick
@given(seeds, gammas, betas)
def test_rotations_do_not_change_the_full_objective(seed: int, gamma: float, beta: float) -> None:
    x, loadings, offset = case(seed)
    rotated = linear.full_objective(x, loadings @ rotation(LATENTS, seed), offset, gamma, beta)
    torch.testing.assert_close(rotated, linear.full_objective(x, loadings, offset, gamma, beta))


def test_a_rotation_of_principal_columns_is_strictly_worse_and_a_signed_permutation_is_not() -> None:
    x, loadings, offset = case(0)
    principal = loadings @ torch.linalg.svd(loadings, full_matrices=False).Vh.T
    best = linear.diagonal_objective(x, principal, offset, 0.5)
    assert (linear.diagonal_objective(x, principal @ rotation(LATENTS, 1), offset, 0.5) < best - 1e-3).all()
    signed = principal[:, [2, 0, 1]] * torch.tensor([1.0, -1.0, -1.0], dtype=torch.float64)
    torch.testing.assert_close(linear.diagonal_objective(x, signed, offset, 0.5), best)


def test_the_diagonal_as_printed_in_equation_4_12_is_invariant_to_rotations() -> None:
    _, loadings, _ = case(0)
    rotated = loadings @ rotation(LATENTS, 1)
    torch.testing.assert_close((rotated @ rotated.T).diagonal(), (loadings @ loadings.T).diagonal())


@quick
@given(seeds, gammas, betas)
def test_the_full_posterior_maximises_the_elbo(seed: int, gamma: float, beta: float) -> None:
    x, loadings, offset = case(seed)
    mean = linear.posterior_mean(x, loadings, offset, gamma, beta)
    covariance = linear.posterior_covariance(loadings, gamma, beta)
    best = linear.elbo(x, loadings, offset, gamma, mean, covariance, beta)
    torch.testing.assert_close(from_elbo(best), linear.full_objective(x, loadings, offset, gamma, beta))
    change = torch.matrix_exp(0.1 * draw(LATENTS, LATENTS, seed=seed + 3))
    moved = linear.elbo(x, loadings, offset, gamma, mean, change @ covariance @ change.T, beta)
    shifted = linear.elbo(x, loadings, offset, gamma, mean + 0.1 * draw(*mean.shape, seed=seed), covariance, beta)
    assert (moved < best).all()
    assert (shifted < best).all()


def test_the_gradient_of_the_elbo_vanishes_at_the_full_posterior() -> None:
    x, loadings, offset = case(1)
    mean = linear.posterior_mean(x, loadings, offset, 0.3, 2.0).requires_grad_()
    covariance = linear.posterior_covariance(loadings, 0.3, 2.0).requires_grad_()
    value = linear.elbo(x, loadings, offset, 0.3, mean, covariance, 2.0).sum()
    for gradient in torch.autograd.grad(value, (mean, covariance)):
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-10, rtol=0)


@quick
@given(seeds, gammas, betas)
def test_the_diagonal_posterior_maximises_the_elbo_among_diagonal_ones(seed: int, gamma: float, beta: float) -> None:
    x, loadings, offset = case(seed)
    mean = linear.posterior_mean(x, loadings, offset, gamma, beta)
    variance = linear.diagonal_posterior_variance(loadings, gamma, beta)
    best = linear.elbo(x, loadings, offset, gamma, mean, variance.diag(), beta)
    torch.testing.assert_close(from_elbo(best), linear.diagonal_objective(x, loadings, offset, gamma, beta))
    other = variance * torch.exp(0.2 * draw(LATENTS, seed=seed + 3))
    assert (linear.elbo(x, loadings, offset, gamma, mean, other.diag(), beta) < best).all()


@pytest.mark.parametrize("beta", [1.0, 3.0])
def test_the_elbo_agrees_with_monte_carlo(beta: float) -> None:
    x, loadings, offset = case(2)
    mean, lower = draw(ITEMS, LATENTS, seed=3), draw(LATENTS, LATENTS, seed=4).tril(-1) + torch.eye(LATENTS).double()
    z = mean + draw(40_000, 1, LATENTS, seed=5) @ lower.T
    posterior = MultivariateNormal(mean, scale_tril=lower)
    prior = MultivariateNormal(torch.zeros(LATENTS).double(), torch.eye(LATENTS).double())
    error = (x - z @ loadings.T - offset).square().sum(-1)
    reconstruction = -0.5 * (DIMENSIONS * math.log(2 * math.pi * 0.7) + error / 0.7)
    values = reconstruction - beta * (posterior.log_prob(z) - prior.log_prob(z))
    exact = linear.elbo(x, loadings, offset, 0.7, mean, lower @ lower.T, beta)
    assert ((values.mean(0) - exact).abs() < 5 * values.std(0) / math.sqrt(len(z))).all()


@quick
@given(seeds, gammas)
def test_at_beta_one_the_elbo_of_the_full_posterior_is_the_evidence(seed: int, gamma: float) -> None:
    x, loadings, offset = case(seed)
    marginal = loadings @ loadings.T + gamma * torch.eye(DIMENSIONS, dtype=torch.float64)
    evidence = linear.log_likelihood(x, loadings, offset, gamma)
    torch.testing.assert_close(evidence, MultivariateNormal(offset, marginal).log_prob(x))
    mean = linear.posterior_mean(x, loadings, offset, gamma)
    full = linear.elbo(x, loadings, offset, gamma, mean, linear.posterior_covariance(loadings, gamma))
    torch.testing.assert_close(full, evidence)
    diagonal = linear.diagonal_posterior_variance(loadings, gamma).diag()
    assert (linear.elbo(x, loadings, offset, gamma, mean, diagonal) <= evidence + 1e-9).all()


@quick
@given(seeds, gammas, betas)
def test_diagonal_and_full_agree_when_the_columns_are_orthogonal(seed: int, gamma: float, beta: float) -> None:
    x, _, offset = case(seed)
    directions, spectrum = rotation(DIMENSIONS, seed)[:, :LATENTS], draw(LATENTS, seed=seed).square()
    loadings = directions * spectrum.sqrt()
    variance = linear.spectral_variance(spectrum, gamma, beta)
    torch.testing.assert_close(linear.posterior_covariance(loadings, gamma, beta), variance.diag())
    torch.testing.assert_close(linear.diagonal_posterior_variance(loadings, gamma, beta), variance)
    gain = linear.spectral_gain(spectrum, gamma, beta)
    mean = linear.posterior_mean(x, loadings, offset, gamma, beta)
    torch.testing.assert_close(mean, (x - offset) @ directions * gain)


@pytest.mark.parametrize(
    ("gamma", "variances", "name"), [(0.1, (0.02, 0.09), "active"), (100.0, (0.96, 0.99), "passive")]
)
def test_the_example_of_section_4_2_2(gamma: float, variances: tuple[float, float], name: str) -> None:
    result = theory.linear_regime([4.0, 1.0], gamma)
    assert tuple(round(value, 2) for value in result.variance.tolist()) == variances
    assert result.types == (name, name)


@quick
@given(st.floats(0.1, 10.0))
def test_the_limits_of_a_precise_and_of_a_vague_decoder(norm: float) -> None:
    spectrum = torch.tensor([norm**2], dtype=torch.float64)
    assert linear.spectral_variance(spectrum, 1e-12).item() == pytest.approx(0, abs=1e-9)
    assert linear.spectral_gain(spectrum, 1e-12).item() == pytest.approx(1 / norm)
    assert linear.spectral_variance(spectrum, 1e12).item() == pytest.approx(1)
    assert linear.spectral_gain(spectrum, 1e12).item() == pytest.approx(0, abs=1e-9)


@quick
@given(st.lists(st.floats(0.01, 50.0), min_size=1, max_size=8), gammas, betas, betas)
def test_a_larger_beta_never_activates_latents(
    eigenvalues: list[float], gamma: float, one: float, other: float
) -> None:
    small, large = sorted((one, other))
    mild, strong = (theory.optimal_regime(eigenvalues, gamma, beta) for beta in (small, large))
    assert (strong.variance >= mild.variance - 1e-12).all()
    assert (strong.spectrum > 0).sum() <= (mild.spectrum > 0).sum()
    assert torch.equal(strong.variance == 1, strong.gain == 0)
    expected = theory.critical_betas(eigenvalues, gamma) <= large
    near = (theory.critical_betas(eigenvalues, gamma) - large).abs() < 1e-9
    assert ((strong.spectrum == 0) == expected)[~near].all()


def descend(loss: Callable[[], Tensor], parameters: list[Tensor]) -> float:
    """The minimum found by a quasi-Newton method."""
    optimiser = torch.optim.LBFGS(
        parameters, lr=1, max_iter=2000, tolerance_grad=1e-12, tolerance_change=1e-16, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = loss()
        value.backward()
        return value

    optimiser.step(closure)
    return float(loss().detach())


def spread_data() -> tuple[Tensor, Tensor, Tensor]:
    """Items with a mean of zero, the eigenvalues of their covariance, largest first, and the eigenvectors."""
    x = draw(60, DIMENSIONS, seed=8) * torch.tensor([3.0, 2.0, 1.2, 0.7, 0.4]) @ rotation(DIMENSIONS, 9)
    x = x - x.mean(0)
    values, vectors = torch.linalg.eigh(x.T @ x / len(x))
    return x, values.flip(0), vectors.flip(1)


@pytest.mark.parametrize("beta", [0.5, 1.0, 3.0, 30.0])
def test_descent_on_the_diagonal_objective_finds_the_thresholded_eigenvalues(beta: float) -> None:
    x, eigenvalues, directions = spread_data()
    offset, gamma = torch.zeros(DIMENSIONS, dtype=torch.float64), 0.5
    loadings = draw(DIMENSIONS, LATENTS, seed=10).requires_grad_()
    found = descend(lambda: -linear.diagonal_objective(x, loadings, offset, gamma, beta).mean(), [loadings])
    spectrum = linear.optimal_spectrum(eigenvalues[:LATENTS], gamma, beta)
    best = directions[:, :LATENTS] * spectrum.sqrt()
    assert found == pytest.approx(float(-linear.diagonal_objective(x, best, offset, gamma, beta).mean()), abs=1e-9)
    inner = (loadings.T @ loadings).detach()
    torch.testing.assert_close(inner.diagonal().sort(descending=True).values, spectrum, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(inner, inner.diagonal().diag(), atol=1e-3, rtol=0)


@pytest.mark.parametrize("beta", [0.5, 1.0, 1.5, 4.0])
def test_descent_on_loadings_offset_and_gamma_together_finds_the_closed_form(beta: float) -> None:
    x, eigenvalues, _ = spread_data()
    x = x + 2
    loadings, offset = draw(DIMENSIONS, LATENTS, seed=11).requires_grad_(), draw(DIMENSIONS, seed=12).requires_grad_()
    log_gamma = torch.zeros((), dtype=torch.float64, requires_grad=True)
    descend(
        lambda: -linear.diagonal_objective(x, loadings, offset, log_gamma.exp(), beta).mean(),
        [loadings, offset, log_gamma],
    )
    gamma = linear.optimal_gamma(eigenvalues, LATENTS, beta)
    torch.testing.assert_close(log_gamma.detach().exp(), gamma, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(offset.detach(), x.mean(0), atol=1e-4, rtol=0)


def profile(eigenvalues: Tensor, latents: int, gamma: float, beta: float) -> float:
    """The loss at the best loadings: -eq. 4.12 averaged over data with these eigenvalues."""
    spectrum = torch.cat(
        [linear.optimal_spectrum(eigenvalues[:latents], gamma, beta), eigenvalues.new_zeros(len(eigenvalues) - latents)]
    )
    scaled = beta * gamma
    volume = torch.log1p(spectrum / scaled) + eigenvalues / (spectrum + scaled)
    return float(len(eigenvalues) * math.log(gamma) + beta * volume.sum())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.05, 50.0), min_size=2, max_size=8), st.integers(1, 8), st.floats(0.2, 6.0))
def test_no_gamma_beats_the_closed_form(values: list[float], latents: int, beta: float) -> None:
    eigenvalues = torch.tensor(sorted(values, reverse=True), dtype=torch.float64)
    latents = min(latents, len(values) - 1)
    gamma = float(linear.optimal_gamma(eigenvalues, latents, beta))
    best = profile(eigenvalues, latents, gamma, beta)
    for other in gamma * np.exp(np.linspace(-6, 6, 61)):
        assert profile(eigenvalues, latents, float(other), beta) >= best - 1e-9


def test_at_beta_one_gamma_is_the_mean_of_the_discarded_eigenvalues() -> None:
    eigenvalues = torch.tensor([9.0, 4.0, 3.0, 2.0, 1.0], dtype=torch.float64)
    assert linear.optimal_gamma(eigenvalues, 2).item() == pytest.approx(2.0)
    assert linear.optimal_gamma(eigenvalues, 5).item() == pytest.approx(1.0)


def test_gamma_is_zero_if_the_objective_has_no_maximum() -> None:
    eigenvalues = torch.tensor([9.0, 4.0, 0.0], dtype=torch.float64)
    assert linear.optimal_gamma(eigenvalues, 2) == 0
    assert linear.optimal_gamma(eigenvalues, 2, 2.0) > 0


def test_rows_and_summary_hold_the_types() -> None:
    result = theory.optimal_regime(np.array([20.0, 1.5, 0.5]), gamma=0.5, beta=2.0)
    assert result.types == ("active", "mixed", "passive")
    assert [row["type"] for row in result.rows()] == list(result.types)
    assert result.rows()[2] == {"spectrum": 0.0, "variance": 1.0, "gain": 0.0, "type": "passive"}
    assert result.summary() == "linear VAE with gamma 0.5 and beta 2: 1 active, 1 mixed, 1 passive"
    assert theory.critical_betas([20.0, 1.5], 0.5).tolist() == [40.0, 3.0]


@pytest.mark.parametrize(
    ("spectrum", "sentence"),
    [
        ([1.0, -2.0], "-2 for latent 1"),
        ([math.nan], "nan for latent 0"),
        ([[1.0]], r"got the shape \(1, 1\)"),
        (["wide"], "spectrum .*numbers"),
    ],
)
def test_a_wrong_spectrum_is_refused(spectrum: list[object], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        theory.linear_regime(spectrum, 1.0)


@pytest.mark.parametrize(("gamma", "beta", "name"), [(0.0, 1.0, "gamma"), (1.0, -1.0, "beta")])
def test_a_wrong_gamma_or_beta_is_refused(gamma: float, beta: float, name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        theory.optimal_regime([1.0], gamma, beta)
