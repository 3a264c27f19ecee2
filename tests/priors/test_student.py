"""The Student-t prior against torch.distributions and scipy."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.distributions import StudentT as TorchStudentT

from vaescope.errors import ConfigurationError
from vaescope.numerics import gaussian
from vaescope.numerics.distributions import DiagonalGaussian, StudentProduct, latent_rate
from vaescope.priors import StudentT

MANY = [0.5, 1.0, 2.0, 3.0, 5.0, 30.0, 1e3]


def prior_of(degrees: float, latents: int = 3) -> StudentProduct:
    return StudentT(degrees).module(latents).double()(torch.ones(latents, dtype=torch.float64))


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("degrees", MANY)
def test_its_density_is_that_of_torch(degrees: float) -> None:
    z, prior = 4 * draw(50, 3), prior_of(degrees)
    expected = TorchStudentT(torch.tensor(degrees, dtype=torch.float64)).log_prob(z)
    torch.testing.assert_close(prior.latent_log_prob(z), expected)
    torch.testing.assert_close(prior.log_prob(z), expected.sum(1))


@pytest.mark.parametrize("degrees", MANY)
def test_a_sample_has_as_much_probability_beyond_it_as_its_noise(degrees: float) -> None:
    noise = torch.cat([draw(500, 3), torch.linspace(-7, 7, 300).double().reshape(100, 3)])
    sample = prior_of(degrees).sample(noise)
    assert torch.equal(sample.sign(), noise.sign())
    beyond = torch.tensor(stats.t.logsf(sample.abs(), degrees)), torch.tensor(stats.norm.logsf(noise.abs()))
    # The table is stored in single precision, and so are its results.
    torch.testing.assert_close(*beyond, rtol=0, atol=1e-5)


def test_samples_have_the_moments_of_the_prior() -> None:
    prior = prior_of(8.0)
    sample = prior.sample(draw(100_000, 3))
    torch.testing.assert_close(sample.var(0), prior.variance, rtol=0.03, atol=0)
    assert prior.variance[0].item() == pytest.approx(8 / 6)
    assert prior_of(2.0).variance[0].item() == math.inf


@pytest.mark.parametrize("far", [0.0, -0.0, 7.999, 8.0, 30.0, -30.0])
def test_noise_at_and_beyond_the_end_of_the_table_gives_finite_codes(far: float) -> None:
    sample = StudentT(0.5).module(1)(torch.ones(1)).sample(torch.tensor([[far]]))
    assert torch.isfinite(sample).all()
    assert (sample == 0).item() == (far == 0)


def test_many_degrees_of_freedom_are_nearly_a_gaussian() -> None:
    z, noise, zero = draw(20, 3), draw(20, 3, seed=1), torch.zeros(20, 3, dtype=torch.float64)
    prior = prior_of(1e8)
    torch.testing.assert_close(prior.latent_log_prob(z), gaussian.log_density(z, zero, zero), rtol=0, atol=1e-6)
    torch.testing.assert_close(prior.sample(noise), noise, rtol=0, atol=1e-6)


def test_latents_out_of_use_are_standard() -> None:
    mask = torch.tensor([1.0, 0.0], dtype=torch.float64)
    prior, z = StudentT(1.0).module(2).double()(mask), draw(10, 2)
    zero = torch.zeros(10, dtype=torch.float64)
    torch.testing.assert_close(prior.latent_log_prob(z)[:, 1], gaussian.log_density(z[:, 1], zero, zero))
    assert torch.equal(prior.sample(z)[:, 1], z[:, 1])
    assert prior.variance.tolist() == [math.inf, 1.0]


def test_the_rate_at_samples_averages_to_the_divergence() -> None:
    prior, count = prior_of(3.0, latents=1), 200_000
    mean, log_variance = torch.full((count, 1), 0.7).double(), torch.full((count, 1), -1.0).double()
    posterior = DiagonalGaussian(mean, log_variance)
    rates = latent_rate(posterior, prior, posterior.sample(draw(count, 1)))
    grid = torch.linspace(-8, 9, 20_001, dtype=torch.float64)[:, None]
    log_q = gaussian.log_density(grid, mean[:1].expand_as(grid), log_variance[:1].expand_as(grid))
    exact = torch.trapezoid((log_q.exp() * (log_q - prior.latent_log_prob(grid)))[:, 0], grid[:, 0])
    assert abs(rates.mean() - exact) < 4 * rates.std() / math.sqrt(count)


@pytest.mark.parametrize("degrees", [0.0, -1.0, 0.4, math.inf])
def test_invalid_degrees_of_freedom_are_named(degrees: float) -> None:
    with pytest.raises(ConfigurationError, match="degrees of freedom"):
        StudentT(degrees)
