"""Likelihoods do not see a rotation of the code, and noise does (Rolinek, propositions 2 and 3, theorem 2)."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from vaescope.models import Architecture, LatentModel
from vaescope.nets import MLP
from vaescope.numerics import linear

seeds = st.integers(0, 10_000)
quick = settings(max_examples=25, deadline=None)
Decoder = Callable[[Tensor], Tensor]


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotation(size: int, seed: int) -> Tensor:
    """A random orthogonal matrix."""
    return torch.linalg.qr(draw(size, size, seed=seed)).Q


# Proposition 2


@quick
@given(seeds, st.floats(0.05, 5.0))
def test_proposition_2_the_likelihood_of_a_linear_decoder_does_not_depend_on_the_rotation(
    seed: int, gamma: float
) -> None:
    x, loadings, offset = draw(7, 5, seed=seed), draw(5, 3, seed=seed + 1), draw(5, seed=seed + 2)
    value = linear.log_likelihood(x, loadings, offset, gamma)
    turned = linear.log_likelihood(x, loadings @ rotation(3, seed).T, offset, gamma)
    torch.testing.assert_close(turned, value)


def integrated_log_likelihood(x: Tensor, model: LatentModel, turn: Tensor) -> Tensor:
    """log of the integral of p(x|turn^T z) p(z) over two latents, by the trapezoidal rule (Rolinek, eq. 1 and 9)."""
    axis = torch.linspace(-12, 12, 121, dtype=torch.float64)
    z = torch.cartesian_prod(axis, axis)
    decoded = model.decode(z @ turn)
    log_joint = torch.stack([decoded.log_prob(item.expand(len(z), -1)) for item in x])
    prior = model.prior(model.latent_mask).log_prob(z)
    return torch.logsumexp(log_joint + prior, 1) + 2 * math.log(24 / 120)


def smooth_model(prior: object, seed: int) -> LatentModel:
    """A decoder with a hidden layer, for six dimensions."""
    likelihood = {"name": "gaussian", "variance": 0.5}
    model = Architecture(net=MLP((), (12,), "tanh", "tanh"), prior=prior, likelihood=likelihood).build((6,), 2, seed)
    return model.double().requires_grad_(False)


@pytest.mark.parametrize("seed", [0, 1])
def test_proposition_2_the_likelihood_of_a_deep_decoder_does_not_depend_on_the_rotation(seed: int) -> None:
    x, turn = draw(4, 6, seed=seed), rotation(2, seed)
    model = smooth_model("standard", seed)
    straight = integrated_log_likelihood(x, model, torch.eye(2, dtype=torch.float64))
    torch.testing.assert_close(integrated_log_likelihood(x, model, turn), straight, rtol=0, atol=1e-6)
    # The integral is right: it agrees with an average over samples of the prior.
    samples = model.decode(draw(200_000, 2, seed=seed + 9)).log_prob(x[0])
    error = samples.exp().std() / math.sqrt(len(samples)) / samples.exp().mean()
    average = torch.logsumexp(samples, 0) - math.log(len(samples))
    assert abs(float(average - straight[0])) < 5 * float(error)


@pytest.mark.parametrize("prior", ["anisotropic", "student_t"])
def test_proposition_2_needs_a_prior_with_rotational_symmetry(prior: str) -> None:
    options: dict[str, object] = {"kind": "fixed", "log_variance": [1.5, -1.5]} if prior == "anisotropic" else {}
    x, model = draw(4, 6, seed=2), smooth_model({"name": prior, **options}, 2)
    half = math.sqrt(0.5)
    turn = torch.tensor([[half, -half], [half, half]], dtype=torch.float64)
    straight = integrated_log_likelihood(x, model, torch.eye(2, dtype=torch.float64))
    assert (integrated_log_likelihood(x, model, turn) - straight).abs().max() > 1e-3


@quick
@given(seeds, st.floats(0.05, 5.0), st.floats(0.1, 5.0))
def test_proposition_3_the_elbo_with_a_full_covariance_does_not_depend_on_the_rotation(
    seed: int, gamma: float, beta: float
) -> None:
    x, loadings, offset = draw(7, 5, seed=seed), draw(5, 3, seed=seed + 1), draw(5, seed=seed + 2)
    mean, lower = draw(7, 3, seed=seed + 3), draw(7, 3, 3, seed=seed + 4)
    covariance = lower @ lower.mT + 0.1 * torch.eye(3, dtype=torch.float64)
    turn = rotation(3, seed)
    turned = turn @ covariance @ turn.T
    value = linear.elbo(x, loadings, offset, gamma, mean, covariance, beta)
    turned_loadings, turned_mean = loadings @ turn.T, mean @ turn.T
    torch.testing.assert_close(linear.elbo(x, turned_loadings, offset, gamma, turned_mean, turned, beta), value)


# Theorem 2


def descended(spectra: Tensor, outputs: Tensor, precision: float, seed: int) -> tuple[Tensor, Tensor]:
    """The cost where a descent on problem (18, 19) ends, over rotations and variances; and the decoders there."""
    items, latents = spectra.shape
    angles = draw(items, latents, latents, seed=seed).requires_grad_()
    free = draw(items, latents, seed=seed + 1).requires_grad_()

    def decoders() -> Tensor:
        turns = torch.linalg.matrix_exp(angles - angles.mT)
        return outputs * spectra.sqrt().unsqueeze(1) @ turns.mT

    def cost() -> Tensor:
        variances = (free - free.mean() - precision / free.numel()).exp()
        each = [linear.noise_cost(one, variance) for one, variance in zip(decoders(), variances, strict=True)]
        return torch.stack(each).log().sum()

    optimiser = torch.optim.LBFGS([angles, free], max_iter=400, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = cost()
        value.backward()
        return value

    optimiser.step(closure)
    return cost().detach(), decoders().detach()


@pytest.mark.parametrize("seed", range(6))
def test_theorem_2_descent_ends_in_a_global_minimum_with_orthogonal_columns(seed: int) -> None:
    spectra = torch.tensor([[9.0, 4.0, 1.0], [6.0, 0.5, 2.0]], dtype=torch.float64)
    outputs = torch.stack([rotation(5, item)[:, :3] for item in range(2)])
    cost, decoders = descended(spectra, outputs, 4.0, 10 * seed)
    assert float(cost) == pytest.approx(float(linear.least_log_noise_cost(spectra, 4.0)), abs=1e-7)
    inner = decoders.mT @ decoders
    assert (inner - inner.diagonal(dim1=-2, dim2=-1).diag_embed()).abs().max() < 1e-2


@quick
@given(seeds, st.floats(-3.0, 8.0))
def test_theorem_2_no_rotations_and_variances_cost_less(seed: int, precision: float) -> None:
    decoders = draw(4, 5, 3, seed=seed)
    spectra = torch.linalg.svdvals(decoders).square()
    least = linear.least_log_noise_cost(spectra, precision)
    free = draw(4, 3, seed=seed + 1)
    variances = (free - free.mean() - precision / free.numel()).exp()
    assert float(-variances.log().sum()) == pytest.approx(precision, abs=1e-9)
    pairs = zip(decoders, variances, strict=True)
    assert torch.stack([linear.noise_cost(one, variance) for one, variance in pairs]).log().sum() >= least - 1e-9


@quick
@given(seeds, st.floats(0.0, 8.0), st.lists(st.floats(-2.0, 2.0), min_size=3, max_size=3))
def test_theorem_2_every_decoder_with_orthogonal_columns_is_a_minimum_however_items_share_the_precision(
    seed: int, precision: float, shares: list[float]
) -> None:
    decoders = draw(3, 5, 3, seed=seed)
    spectra = torch.linalg.svdvals(decoders).square()
    own = torch.tensor(shares, dtype=torch.float64)
    own = own - own.mean() + precision / 3
    found = []
    for item, (decoder, part) in enumerate(zip(decoders, own, strict=True)):
        principal = decoder @ torch.linalg.svd(decoder, full_matrices=False).Vh.T
        order = torch.randperm(3, generator=torch.Generator().manual_seed(seed + item))
        signs = torch.where(torch.arange(3) == item, -1.0, 1.0)
        found.append(linear.cheapest_noise_cost(principal[:, order] * signs, part).log())
    torch.testing.assert_close(torch.stack(found).sum(), linear.least_log_noise_cost(spectra, precision))


def turned_in_plane(decoder: Tensor, first: int, second: int, angle: float) -> Tensor:
    """The decoder after a rotation of two latents."""
    turn = torch.eye(decoder.shape[1], dtype=torch.float64)
    turn[first, first] = turn[second, second] = math.cos(angle)
    turn[first, second], turn[second, first] = math.sin(angle), -math.sin(angle)
    return decoder @ turn


@quick
@given(seeds)
def test_theorem_2a_where_columns_are_not_orthogonal_a_small_rotation_costs_less(seed: int) -> None:
    """So only decoders with orthogonal columns are local minima, and these are all global."""
    decoder = draw(5, 3, seed=seed)
    first, second = decoder[:, 0], decoder[:, 1]
    assume(abs(float(first @ second)) > 0.05 and abs(float(first @ first - second @ second)) > 0.05)
    here = linear.cheapest_noise_cost(decoder, 0.0)
    there = [linear.cheapest_noise_cost(turned_in_plane(decoder, 0, 1, angle), 0.0) for angle in (1e-4, -1e-4)]
    assert min(there) < here < max(there)


@quick
@given(seeds)
def test_theorem_2a_columns_of_equal_length_that_are_not_orthogonal_are_a_maximum(seed: int) -> None:
    """There the slope is 0 without a minimum: either direction of the rotation costs less."""
    decoder = draw(5, 3, seed=seed)
    decoder = decoder / decoder.norm(dim=0)
    assume(abs(float(decoder[:, 0] @ decoder[:, 1])) > 0.05)
    here = linear.cheapest_noise_cost(decoder, 0.0)
    for angle in (1e-3, -1e-3):
        assert linear.cheapest_noise_cost(turned_in_plane(decoder, 0, 1, angle), 0.0) < here
