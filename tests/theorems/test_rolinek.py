"""Noise in the code favours orthogonal decoders (Rolinek, Zietlow and Martius, 2019, sections 3 and 4)."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from vaescope.models import Linear
from vaescope.numerics import linear

# Equation 24, and the same decoder after a rotation of the code by 45 degrees.
FIRST = torch.tensor([[4.0, 1.0], [-3.0, 1.0], [5.0, -1.0]], dtype=torch.float64)
HALF = math.sqrt(0.5)
SECOND = FIRST @ torch.tensor([[HALF, -HALF], [HALF, HALF]], dtype=torch.float64).T
seeds = st.integers(0, 10_000)
quick = settings(max_examples=40, deadline=None)


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotation(size: int, seed: int) -> Tensor:
    """A random orthogonal matrix."""
    return torch.linalg.qr(draw(size, size, seed=seed)).Q


@pytest.mark.parametrize(
    ("decoder", "coefficients", "least"), [(FIRST, [50.0, 3.0], 24.5), (SECOND, [30.5, 22.5], 52.4)]
)
def test_the_numbers_of_equations_25_and_26(decoder: Tensor, coefficients: list[float], least: float) -> None:
    single = torch.eye(2, dtype=torch.float64)
    assert linear.noise_cost(decoder, single).tolist() == pytest.approx(coefficients)
    # The factor in front of e^-C, C the KL; eq. 23 fixes twice the KL, so both are zero together.
    assert round(float(linear.cheapest_noise_cost(decoder, 0.0)), 1) == least
    assert float(linear.cheapest_noise_cost(decoder, 2.0)) == pytest.approx(least * math.exp(-1), abs=0.05)


def test_the_influential_latent_gets_the_precision() -> None:
    variance = linear.cheapest_variance(FIRST, 1.7)
    assert float(variance[0] / variance[1]) == pytest.approx(3 / 50)


def test_the_best_rotation_of_the_example_is_better_than_both() -> None:
    principal = FIRST @ torch.linalg.svd(FIRST, full_matrices=False).Vh.T
    assert float(linear.cheapest_noise_cost(principal, 0.0)) == pytest.approx(2 * math.sqrt(50 * 3 - 4**2))


@quick
@given(seeds, st.floats(-3.0, 10.0))
def test_no_variances_of_the_same_precision_cost_less(seed: int, precision: float) -> None:
    decoder, shift = draw(5, 3, seed=seed), draw(3, seed=seed + 1)
    best = linear.cheapest_variance(decoder, precision)
    assert float(-best.log().sum()) == pytest.approx(precision, abs=1e-9)
    other = best * torch.exp(shift - shift.mean())
    least = linear.cheapest_noise_cost(decoder, precision)
    product = decoder.square().sum(0).prod() * math.exp(-precision)
    assert float(least) == pytest.approx(float(3 * product ** (1 / 3)))
    assert linear.noise_cost(decoder, other) >= least * (1 - 1e-12)


@quick
@given(seeds, st.floats(0.0, 5.0))
def test_no_rotation_costs_less_than_orthogonal_columns(seed: int, precision: float) -> None:
    decoder = draw(5, 3, seed=seed)
    principal = decoder @ torch.linalg.svd(decoder, full_matrices=False).Vh.T
    rotated = linear.cheapest_noise_cost(decoder @ rotation(3, seed + 1).T, precision)
    assert linear.cheapest_noise_cost(principal, precision) <= rotated * (1 + 1e-12)


@quick
@given(seeds)
def test_the_product_of_the_column_norms_bounds_the_volume(seed: int) -> None:
    decoder = draw(5, 3, seed=seed) @ rotation(3, seed + 1).T
    volume = torch.linalg.svdvals(decoder).prod()
    assert decoder.norm(dim=0).prod() >= volume * (1 - 1e-12)


@quick
@given(seeds)
def test_columns_are_orthogonal_exactly_when_the_right_singular_vectors_are_a_permutation(seed: int) -> None:
    scales = torch.tensor([3.0, 0.5, 1.5], dtype=torch.float64)
    orthogonal = rotation(5, seed)[:, :3] * scales
    aligned = torch.linalg.svd(orthogonal, full_matrices=False).Vh.abs()
    torch.testing.assert_close(aligned, torch.eye(3, dtype=torch.float64)[[0, 2, 1]], atol=1e-8, rtol=0)
    turned = orthogonal @ rotation(3, seed + 1)
    inner = turned.T @ turned
    skewed = (inner - inner.diagonal().diag()).abs().max()
    off = (1 - torch.linalg.svd(turned, full_matrices=False).Vh.abs().max(1).values).max()
    assert (skewed < 1e-6) == (off < 1e-12)


def nodes(mean: Tensor, variance: Tensor) -> Tensor:
    """Equally likely codes with exactly this mean and this diagonal covariance."""
    latents = mean.shape[-1]
    steps = math.sqrt(latents) * torch.diag_embed(variance.sqrt())
    return torch.cat([mean.unsqueeze(1) + steps, mean.unsqueeze(1) - steps], 1)


def squared(difference: Tensor) -> Tensor:
    return difference.square().sum(-1)


def test_the_reconstruction_loss_splits_for_a_decoder_without_bias() -> None:
    rows = draw(50, 3, seed=0) @ draw(3, 6, seed=1) + 0.2 * draw(50, 6, seed=2)
    model = Linear.fit(rows, 3)
    posterior = model.encode(rows)
    codes = nodes(posterior.mean, posterior.variance)
    decoded = model.decode(codes.flatten(0, 1)).mean.unflatten(0, codes.shape[:2])
    middle = model.decode(posterior.mean).mean
    whole = squared(decoded - rows.unsqueeze(1)).mean(1)
    deterministic, stochastic = squared(middle - rows), squared(decoded - middle.unsqueeze(1)).mean(1)
    torch.testing.assert_close(whole, deterministic + stochastic)
    torch.testing.assert_close(stochastic, linear.noise_cost(model.loadings, posterior.variance))
    assert (stochastic > 0).all()


def test_the_split_fails_by_twice_the_product_of_bias_and_error_for_a_decoder_with_bias() -> None:
    x, mean, variance = draw(20, 2, seed=3), draw(20, 2, seed=4), torch.full((20, 2), 0.3, dtype=torch.float64)
    decoded, middle = nodes(mean, variance).square(), mean.square()
    whole = squared(decoded - x.unsqueeze(1)).mean(1)
    split = squared(middle - x) + squared(decoded - middle.unsqueeze(1)).mean(1)
    bias = decoded.mean(1) - middle
    torch.testing.assert_close(whole - split, 2 * (bias * (middle - x)).sum(-1))
    assert (whole - split).abs().max() > 0.1
