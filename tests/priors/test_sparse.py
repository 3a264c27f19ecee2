"""The sparse prior against torch.distributions."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, MixtureSameFamily, Normal

from vaescope.errors import ConfigurationError
from vaescope.numerics.distributions import DiagonalGaussian, latent_rate
from vaescope.priors import Sparse


def prior_of(spec: Sparse, mask: list[float]) -> Any:
    return spec.module(len(mask)).double()(torch.tensor(mask, dtype=torch.float64))


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def reference(gamma: float, variance: float) -> MixtureSameFamily:
    weights = torch.tensor([gamma, 1 - gamma], dtype=torch.float64)
    return MixtureSameFamily(Categorical(weights), Normal(0.0, torch.tensor([variance, 1.0]).double().sqrt()))


@pytest.mark.parametrize(("gamma", "variance"), [(0.8, 0.05), (0.3, 0.0025)])
def test_its_density_and_variance_are_those_of_torch(gamma: float, variance: float) -> None:
    prior, z = prior_of(Sparse(gamma, variance), [1.0] * 3), draw(50, 3)
    expected = reference(gamma, variance).log_prob(z)
    torch.testing.assert_close(prior.latent_log_prob(z), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(prior.log_prob(z), expected.sum(1), rtol=1e-6, atol=1e-6)
    spread = torch.full((3,), gamma * variance + 1 - gamma).double()
    torch.testing.assert_close(prior.variance, spread, rtol=1e-6, atol=0)
    assert not prior.mean.any()


def test_without_options_the_variance_is_the_one_of_the_paper() -> None:
    assert Sparse() == Sparse(gamma=0.8, variance=0.05)


def test_samples_have_the_distribution_of_the_density() -> None:
    prior, count = prior_of(Sparse(), [1.0] * 2), 200_000
    sample = prior.sample(draw(count, 2))
    for point in (-1.0, -0.2, 0.0, 0.1, 0.5, 2.0):
        expected = reference(0.8, 0.05).cdf(torch.tensor(point).double())
        assert ((sample < point).double().mean(0) - expected).abs().max() < 5 * 0.5 / math.sqrt(count)
    assert abs(torch.corrcoef(sample.T)[0, 1]) < 0.01


@pytest.mark.parametrize(("gamma", "variance"), [(0.0, 1.0), (1.0, 0.05)])
def test_with_gamma_0_or_1_it_is_one_gaussian(gamma: float, variance: float) -> None:
    prior = prior_of(Sparse(gamma, 0.05), [1.0] * 3)
    assert isinstance(prior, DiagonalGaussian)
    torch.testing.assert_close(prior.variance, torch.full((3,), variance).double())


def test_latents_out_of_use_are_standard() -> None:
    prior, z = prior_of(Sparse(), [1.0, 0.0]), draw(10, 2)
    torch.testing.assert_close(prior.latent_log_prob(z)[:, 1], Normal(0.0, 1.0).log_prob(z[:, 1]))
    spread = prior.sample(draw(100_000, 2)).var(0)
    assert spread[1].item() == pytest.approx(1, abs=0.02)
    assert spread[0].item() == pytest.approx(0.24, abs=0.02)


def test_the_rate_at_samples_averages_to_the_divergence() -> None:
    prior, count = prior_of(Sparse(), [1.0]), 200_000
    posterior = DiagonalGaussian(torch.full((count, 1), 0.4).double(), torch.full((count, 1), -2.0).double())
    rates = latent_rate(posterior, prior, posterior.sample(draw(count, 1)))
    grid = torch.linspace(-4, 5, 20_001, dtype=torch.float64)[:, None]
    log_q = Normal(0.4, math.exp(-1.0)).log_prob(grid)
    exact = torch.trapezoid((log_q.exp() * (log_q - prior.latent_log_prob(grid)))[:, 0], grid[:, 0])
    assert abs(rates.mean() - exact) < 4 * rates.std() / math.sqrt(count)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": -0.1}, "gamma of a sparse prior must be a finite number of at least 0, got -0.1"),
        ({"gamma": 1.1}, r"gamma .* got 1.1"),
        ({"variance": 0.0}, "the variance of a sparse prior must be a finite number above 0, got 0.0"),
    ],
)
def test_a_bad_setting_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Sparse(**options)
