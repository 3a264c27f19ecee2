"""Likelihoods against torch.distributions."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli as TorchBernoulli
from torch.distributions import Independent, Normal

from vaescope.errors import ConfigurationError
from vaescope.likelihoods import LIKELIHOODS, Bernoulli, Gaussian

SHAPES = [(5,), (2, 3, 4)]
ITEMS = 6


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_bernoulli_likelihood_equals_that_of_torch(shape: tuple[int, ...]) -> None:
    logits, bits = draw(ITEMS, *shape, seed=0), (draw(ITEMS, *shape, seed=1) > 0).double()
    ours, theirs = Bernoulli().module(tuple(logits.shape[1:]))(logits), TorchBernoulli(logits=logits)
    torch.testing.assert_close(ours.log_prob(bits), Independent(theirs, len(shape)).log_prob(bits))
    torch.testing.assert_close(ours.mean, theirs.mean)
    torch.testing.assert_close(ours.variance, theirs.variance)


def test_a_grey_pixel_counts_as_the_expected_bit() -> None:
    logits, grey = draw(ITEMS, 5, seed=0), draw(ITEMS, 5, seed=1).sigmoid()
    distribution = Bernoulli().module(tuple(logits.shape[1:]))(logits)
    one, zero = (TorchBernoulli(logits=logits).log_prob(torch.full_like(grey, bit)) for bit in (1.0, 0.0))
    torch.testing.assert_close(distribution.log_prob(grey), (grey * one + (1 - grey) * zero).sum(1))


def test_bits_are_drawn_with_their_probability() -> None:
    logits = draw(1, 5, seed=0).expand(20_000, -1)
    noise = torch.rand(logits.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    distribution = Bernoulli().module(tuple(logits.shape[1:]))(logits)
    sample = distribution.sample(noise)
    assert set(sample.unique().tolist()) == {0.0, 1.0}
    error = (distribution.variance[0] / len(sample)).sqrt()
    assert ((sample.mean(0) - distribution.mean[0]).abs() < 4 * error).all()


@pytest.mark.parametrize("logit", [-200.0, 200.0])
def test_extreme_logits_keep_density_and_gradient_finite(logit: float) -> None:
    logits = torch.full((1, 3), logit, requires_grad=True)
    value = Bernoulli().module(tuple(logits.shape[1:]))(logits).log_prob(torch.tensor([[0.0, 1.0, 0.5]]))
    value.sum().backward()
    assert torch.isfinite(value).all()
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("variance", [1.0, 0.5, 0.01])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_gaussian_likelihood_equals_that_of_torch(shape: tuple[int, ...], variance: float, learned: bool) -> None:
    mean, x = draw(ITEMS, *shape, seed=0), draw(ITEMS, *shape, seed=1)
    ours = Gaussian(variance, learned).module(tuple(mean.shape[1:]))(mean)
    theirs = Normal(mean, math.sqrt(variance))
    torch.testing.assert_close(
        ours.log_prob(x), Independent(theirs, len(shape)).log_prob(x), rtol=1e-6, atol=1e-5, check_dtype=False
    )
    torch.testing.assert_close(ours.variance, theirs.variance, rtol=1e-6, atol=0, check_dtype=False)
    assert torch.equal(ours.mean, mean)


def test_a_gaussian_sample_moves_the_noise_by_the_mean_and_scales_it_by_the_deviation() -> None:
    mean, noise = draw(ITEMS, 2, 3, 4, seed=0), draw(ITEMS, 2, 3, 4, seed=1)
    sample = Gaussian(0.25).module(tuple(mean.shape[1:])).double()(mean).sample(noise)
    torch.testing.assert_close(sample, mean + 0.5 * noise)


def test_half_a_unit_of_variance_is_the_squared_error_up_to_a_constant() -> None:
    mean, x = draw(ITEMS, 5, seed=0), draw(ITEMS, 5, seed=1)
    log_prob = Gaussian(0.5).module(tuple(mean.shape[1:])).double()(mean).log_prob(x)
    torch.testing.assert_close(-log_prob - 2.5 * math.log(math.pi), (x - mean).square().sum(1))


def test_only_a_learned_variance_is_a_parameter_and_learns() -> None:
    fixed, learned = Gaussian(2.0).module((3,)), Gaussian(2.0, learned=True).module((3,))
    assert list(fixed.parameters()) == []
    assert fixed.state_dict() == {}
    assert [name for name, _ in learned.named_parameters()] == ["log_variance"]
    assert isinstance(learned.log_variance, nn.Parameter)
    learned(torch.zeros(3, 5)).log_prob(torch.ones(3, 5)).sum().backward()
    # d/d(log variance) of the summed log-density: (squared error / variance - 1) / 2 for each of 15 numbers.
    torch.testing.assert_close(learned.log_variance.grad, torch.tensor(15 * 0.5 * (1 / 2.0 - 1)))


@pytest.mark.parametrize("name", sorted(LIKELIHOODS))
def test_sixteen_bit_outputs_are_scored_in_single_precision(name: str) -> None:
    module = LIKELIHOODS[name]().module((5,))
    output = draw(ITEMS, 5, seed=0).to(torch.bfloat16)
    x = draw(ITEMS, 5, seed=1).sigmoid().to(torch.float32)
    value = module.to(torch.bfloat16)(output).log_prob(x)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, LIKELIHOODS[name]().module(tuple(output.shape[1:]))(output.float()).log_prob(x))


@pytest.mark.parametrize("variance", [0.0, -1.0, float("nan")])
def test_a_variance_that_is_not_positive_is_named(variance: float) -> None:
    with pytest.raises(ConfigurationError, match=f"variance .* above 0, got {variance}"):
        Gaussian(variance)
