"""The closed forms of the linear iVAE: against its objective and in their limits (Bonheme, 5.2)."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import MultivariateNormal, Normal, kl_divergence

from vaescope.numerics import linear
from vaescope.numerics import linear_identifiable as identifiable

ITEMS, DIMENSIONS, LATENTS = 6, 5, 3
SMALLEST = 1e-12  # in place of a variance of 0
seeds = st.integers(0, 10_000)
gammas = st.floats(0.01, 10.0)
quick = settings(max_examples=25, deadline=None)


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotation(size: int, seed: int) -> Tensor:
    """A random orthogonal matrix."""
    return torch.linalg.qr(draw(size, size, seed=seed)).Q


def case(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Items, loadings and offset."""
    return draw(ITEMS, DIMENSIONS, seed=seed), draw(DIMENSIONS, LATENTS, seed=seed + 1), draw(DIMENSIONS, seed=seed + 2)


def orthogonal_case(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """The same, the columns of the loadings being orthogonal."""
    x, loadings, offset = case(seed)
    return 2 * x, rotation(DIMENSIONS, seed)[:, :LATENTS] * loadings[0].exp(), offset


def codes(seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean and variance of posteriors and of priors, one of each for each example."""
    mean, prior_mean = draw(ITEMS, LATENTS, seed=seed + 3), draw(ITEMS, LATENTS, seed=seed + 4)
    return mean, draw(ITEMS, LATENTS, seed=seed + 5).exp(), prior_mean, draw(ITEMS, LATENTS, seed=seed + 6).exp()


@quick
@given(seeds, gammas)
def test_the_elbo_is_that_of_equations_5_1_to_5_3(seed: int, gamma: float) -> None:
    x, loadings, offset = case(seed)
    mean, variance, prior_mean, prior_variance = codes(seed)
    value = identifiable.elbo(x, loadings, offset, gamma, mean, variance, prior_mean, prior_variance)
    inner = loadings.T @ loadings / gamma + (1 / prior_variance).diag_embed()
    change = prior_mean - mean
    printed = -0.5 * (
        DIMENSIONS * math.log(gamma)
        + (x - mean @ loadings.T - offset).square().sum(-1) / gamma
        + (variance.diag_embed() @ inner).diagonal(dim1=-2, dim2=-1).sum(-1)
        + (change * change / prior_variance).sum(-1)
        + prior_variance.log().sum(-1)
        - variance.log().sum(-1)
        - LATENTS
    )
    torch.testing.assert_close(value + 0.5 * DIMENSIONS * math.log(2 * math.pi), printed)
    rate = kl_divergence(Normal(mean, variance.sqrt()), Normal(prior_mean, prior_variance.sqrt())).sum(-1)
    likelihood = linear.expected_log_likelihood(x, loadings, offset, gamma, mean, variance.diag_embed())
    torch.testing.assert_close(value, likelihood - rate)


@quick
@given(seeds, gammas)
def test_with_a_standard_prior_it_is_the_linear_vae(seed: int, gamma: float) -> None:
    x, loadings, offset = case(seed)
    zeros, ones = torch.zeros(ITEMS, LATENTS, dtype=torch.float64), torch.ones(ITEMS, LATENTS, dtype=torch.float64)
    mean = identifiable.posterior_mean(x, loadings, offset, gamma, zeros, ones)
    variance = identifiable.posterior_variance(loadings, gamma, ones)
    torch.testing.assert_close(mean, linear.posterior_mean(x, loadings, offset, gamma))
    torch.testing.assert_close(variance[0], linear.diagonal_posterior_variance(loadings, gamma))
    torch.testing.assert_close(
        identifiable.elbo(x, loadings, offset, gamma, mean, variance, zeros, ones),
        linear.elbo(x, loadings, offset, gamma, mean, variance.diag_embed()),
    )


@quick
@given(seeds, gammas, st.floats(0.01, 100.0))
def test_a_latent_has_no_scale_of_its_own(seed: int, gamma: float, scale: float) -> None:
    x, loadings, offset = case(seed)
    mean, variance, prior_mean, prior_variance = codes(seed)
    value = identifiable.elbo(x, loadings, offset, gamma, mean, variance, prior_mean, prior_variance)
    square = scale**2
    torch.testing.assert_close(
        identifiable.elbo(
            x,
            loadings * scale,
            offset,
            gamma,
            mean / scale,
            variance / square,
            prior_mean / scale,
            prior_variance / square,
        ),
        value,
    )


@quick
@given(seeds, gammas)
def test_each_closed_form_maximises_the_elbo_for_the_other_parameters(seed: int, gamma: float) -> None:
    """Equations 5.4, 5.5, 5.7 and 5.9: the gradient vanishes at each, and a step away is worse."""
    x, loadings, offset = case(seed)
    mean, variance, prior_mean, prior_variance = codes(seed)
    given = {"mean": mean, "variance": variance, "prior_mean": prior_mean, "prior_variance": prior_variance}
    best = {
        "mean": identifiable.posterior_mean(x, loadings, offset, gamma, prior_mean, prior_variance),
        "variance": identifiable.posterior_variance(loadings, gamma, prior_variance),
        "prior_mean": mean,
        "prior_variance": identifiable.optimal_prior_variance(mean, variance, prior_mean),
    }
    for name, value in best.items():
        at = value.clone().requires_grad_()
        found = identifiable.elbo(x, loadings, offset, gamma, **(given | {name: at}))
        (gradient,) = torch.autograd.grad(found.sum(), at)
        # In units of the value itself, because variances may be very small.
        assert float((gradient * (value.abs() + 1e-3)).abs().max()) < 1e-8
        step = torch.exp(0.1 * draw(*value.shape, seed=seed + 7)) if "variance" in name else None
        moved = value + 0.1 * draw(*value.shape, seed=seed + 7) if step is None else value * step
        worse = identifiable.elbo(x, loadings, offset, gamma, **(given | {name: moved}))
        assert (worse < found.detach()).all()


@quick
@given(seeds, gammas)
def test_examples_with_the_same_condition_share_the_average_of_their_priors(seed: int, gamma: float) -> None:
    x, loadings, offset = case(seed)
    mean, variance, _, _ = codes(seed)
    shared_mean = mean.mean(0).requires_grad_()
    shared_variance = identifiable.optimal_prior_variance(mean, variance, mean.mean(0)).mean(0).requires_grad_()
    value = identifiable.elbo(x, loadings, offset, gamma, mean, variance, shared_mean, shared_variance).sum()
    for gradient in torch.autograd.grad(value, (shared_mean, shared_variance)):
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-9, rtol=0)


def at_own_prior(x: Tensor, loadings: Tensor, offset: Tensor, gamma: float, variance: Tensor) -> Tensor:
    """The ELBO of the least-squares code (eq. 5.10) with the prior equal to the posterior (eq. 5.4 and 5.6)."""
    mean = (x - offset) @ torch.linalg.pinv(loadings).T
    return identifiable.elbo(x, loadings, offset, gamma, mean, variance, mean, variance)


@quick
@given(seeds, gammas)
def test_theorem_5_2_1_every_round_of_the_closed_forms_improves_on_the_last(seed: int, gamma: float) -> None:
    x, loadings, offset = case(seed)
    start = codes(seed)[1]
    variance, before = start, at_own_prior(x, loadings, offset, gamma, start)
    for rounds in range(1, 6):
        variance = identifiable.posterior_variance(loadings, gamma, variance)
        torch.testing.assert_close(variance, identifiable.shrunk_variance(start, loadings, gamma, rounds))
        after = at_own_prior(x, loadings, offset, gamma, variance)
        assert (after > before).all()
        before = after
    bound = identifiable.learned_mean_supremum(x, loadings, offset, gamma)
    assert (before < bound).all()
    small = identifiable.shrunk_variance(start, loadings, gamma, 10**12)
    torch.testing.assert_close(at_own_prior(x, loadings, offset, gamma, small), bound)


@quick
@given(seeds, gammas)
def test_theorem_5_2_1_no_parameters_are_stationary_together(seed: int, gamma: float) -> None:
    """Where eq. 5.4, 5.6 and 5.10 hold, the slope in the variance is -|w|^2 / (2 gamma), which is never 0."""
    x, loadings, offset = case(seed)
    mean = ((x - offset) @ torch.linalg.pinv(loadings).T).requires_grad_()
    variance = codes(seed)[1].requires_grad_()
    prior_mean, prior = mean.detach().clone().requires_grad_(), variance.detach().clone().requires_grad_()
    value = identifiable.elbo(x, loadings, offset, gamma, mean, variance, prior_mean, prior).sum()
    slopes = torch.autograd.grad(value, (mean, variance, prior_mean, prior))
    for slope in (slopes[0], slopes[2], slopes[3]):
        torch.testing.assert_close(slope, torch.zeros_like(slope), atol=1e-8 / gamma, rtol=0)
    torch.testing.assert_close(slopes[1], (-0.5 * loadings.square().sum(0) / gamma).expand_as(slopes[1]))


@quick
@given(seeds, gammas)
def test_theorem_5_2_1_the_bound_is_above_the_elbo_of_any_parameters(seed: int, gamma: float) -> None:
    x, loadings, offset = case(seed)
    value = identifiable.elbo(x, loadings, offset, gamma, *codes(seed))
    assert (value < identifiable.learned_mean_supremum(x, loadings, offset, gamma)).all()


@quick
@given(seeds, gammas)
def test_the_stationary_variance_solves_equations_5_12_and_5_13_together(seed: int, gamma: float) -> None:
    x, loadings, offset = case(seed)
    mean, zeros = codes(seed)[0], torch.zeros(ITEMS, LATENTS, dtype=torch.float64)
    variance = identifiable.stationary_variance(mean, loadings, gamma)
    prior = identifiable.optimal_prior_variance(mean, variance, zeros)
    torch.testing.assert_close(variance, identifiable.posterior_variance(loadings, gamma, prior))
    best = identifiable.elbo(x, loadings, offset, gamma, mean, variance, zeros, prior)
    torch.testing.assert_close(identifiable.reduced_elbo(x, loadings, offset, gamma, mean), best)
    change = torch.exp(0.2 * draw(ITEMS, LATENTS, seed=seed + 8))
    other = identifiable.optimal_prior_variance(mean, variance * change, zeros)
    assert (identifiable.elbo(x, loadings, offset, gamma, mean, variance * change, zeros, other) < best).all()


@quick
@given(seeds, gammas)
def test_the_reduced_elbo_is_equation_5_15_as_printed(seed: int, gamma: float) -> None:
    x, loadings, offset = case(seed)
    mean = codes(seed)[0]
    variance = identifiable.stationary_variance(mean, loadings, gamma)
    total, norms = variance + mean.square(), loadings.square().sum(0)
    printed = -0.5 * (
        (DIMENSIONS - LATENTS) * math.log(gamma)
        + (mean.square() / total).sum(-1)
        + (x - offset - mean @ loadings.T).square().sum(-1) / gamma
        + (norms * total + gamma).log().sum(-1)
    )
    found = identifiable.reduced_elbo(x, loadings, offset, gamma, mean) + 0.5 * DIMENSIONS * math.log(2 * math.pi)
    torch.testing.assert_close(found, printed)
    # Equations 5.22 and 5.23 have log(|w|^2 (variance + mean^2) + 1), which is another number unless gamma is 1.
    misprint = 0.5 * ((norms * total / gamma + 1).log() - (norms * total + 1).log()).sum(-1)
    assert (misprint.abs() > 1e-6).all() or abs(gamma - 1) < 1e-3


@quick
@given(seeds)
def test_proposition_5_2_1_in_an_active_latent_the_noise_vanishes_and_the_prior_is_the_square_of_the_mean(
    seed: int,
) -> None:
    loadings = case(seed)[1]
    mean = codes(seed)[0]
    mean = mean.sign() * (mean.abs() + 0.1)
    for gamma in (1e-2, 1e-4, 1e-6):
        variance = identifiable.stationary_variance(mean, loadings, gamma)
        assert (variance <= gamma / loadings.square().sum(0) * (1 + 1e-12)).all()
        prior = identifiable.optimal_prior_variance(mean, variance, torch.zeros_like(mean))
        bound = gamma / (loadings.square().sum(0) * mean.square())
        assert (prior / mean.square() - 1 <= bound + 1e-12).all()


@quick
@given(seeds, gammas)
def test_proposition_5_2_2_a_latent_that_is_not_used_has_mean_0_and_the_variance_of_its_prior(
    seed: int, gamma: float
) -> None:
    x, loadings, offset = case(seed)
    prior = codes(seed)[3]
    unused = loadings * torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
    zeros = torch.zeros_like(prior)
    mean = identifiable.posterior_mean(x, unused, offset, gamma, zeros, prior)
    variance = identifiable.posterior_variance(unused, gamma, prior)
    assert (mean[:, 2] == 0).all()
    torch.testing.assert_close(variance[:, 2], prior[:, 2])
    torch.testing.assert_close(
        identifiable.elbo(x, unused, offset, gamma, mean, variance, zeros, prior),
        identifiable.elbo(x, unused[:, :2], offset, gamma, mean[:, :2], variance[:, :2], zeros[:, :2], prior[:, :2]),
    )


@quick
@given(seeds, gammas)
def test_theorem_5_2_2_a_latent_that_does_not_improve_the_reconstruction_has_a_price(seed: int, gamma: float) -> None:
    """The same reconstruction with k latents, and with one of them split over two columns (eq. 5.24 and 5.25)."""
    x, loadings, offset = case(seed)
    mean = codes(seed)[0]
    passive = torch.cat([loadings, torch.zeros(DIMENSIONS, 1, dtype=torch.float64)], 1)
    at_zero = torch.cat([mean, torch.zeros(ITEMS, 1, dtype=torch.float64)], 1)
    share = torch.rand((), generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 0.9 + 0.05
    split_loadings = torch.cat([loadings, loadings[:, -1:]], 1)
    split = torch.cat([mean[:, :-1], share * mean[:, -1:], (1 - share) * mean[:, -1:]], 1)
    torch.testing.assert_close(split @ split_loadings.T, at_zero @ passive.T)
    with_passive = identifiable.reduced_elbo(x, passive, offset, gamma, at_zero)
    torch.testing.assert_close(with_passive, identifiable.reduced_elbo(x, loadings, offset, gamma, mean))
    assert (identifiable.reduced_elbo(x, split_loadings, offset, gamma, split) < with_passive).all()
    price = identifiable.latent_price(split, split_loadings, gamma)
    assert (price > 0).all()
    variance = identifiable.stationary_variance(split, split_loadings, gamma)
    by_terms = 0.5 * (
        torch.log1p(split_loadings.square().sum(0) * (variance + split.square()) / gamma)
        + split.square() / (split.square() + variance)
    )
    torch.testing.assert_close(price, by_terms)


def test_the_price_of_a_small_mean_is_linear_so_that_small_means_become_0() -> None:
    loadings = torch.tensor([[3.0], [4.0]], dtype=torch.float64)
    mean = torch.tensor([[1e-6]], dtype=torch.float64)
    assert identifiable.latent_price(mean, loadings, 4.0).item() == pytest.approx(1e-6 * 5 / 2, rel=1e-5)
    assert identifiable.latent_price(0 * mean, loadings, 4.0).item() == 0


@quick
@given(seeds, gammas)
def test_for_orthogonal_columns_the_elbo_is_the_likelihood_and_the_prior_is_thresholded(
    seed: int, gamma: float
) -> None:
    x, loadings, offset = orthogonal_case(seed)
    prior = identifiable.thresholded_prior_variance(identifiable.second_moment(x, loadings, offset), loadings, gamma)
    marginal = loadings * prior.clamp(min=SMALLEST).unsqueeze(1) @ loadings.T + gamma * torch.eye(DIMENSIONS).double()
    best = MultivariateNormal(offset, marginal).log_prob(x)
    used = prior.clamp(min=SMALLEST)
    zeros = torch.zeros_like(used)
    mean = identifiable.posterior_mean(x, loadings, offset, gamma, zeros, used)
    variance = identifiable.posterior_variance(loadings, gamma, used)
    torch.testing.assert_close(identifiable.elbo(x, loadings, offset, gamma, mean, variance, zeros, used), best)
    reduced = identifiable.reduced_elbo(x, loadings, offset, gamma, mean * (prior > 0))
    torch.testing.assert_close(reduced, best, rtol=1e-5, atol=1e-5)
    change = torch.exp(0.3 * draw(ITEMS, LATENTS, seed=seed + 9))
    other = loadings * (used * change).unsqueeze(1) @ loadings.T + gamma * torch.eye(DIMENSIONS).double()
    assert (MultivariateNormal(offset, other).log_prob(x) <= best + 1e-9).all()
    # No mean has a better reduced ELBO, the active and the passive latents included.
    moved = mean * (prior > 0) + 0.1 * draw(ITEMS, LATENTS, seed=seed + 10)
    assert (identifiable.reduced_elbo(x, loadings, offset, gamma, moved) < reduced).all()
