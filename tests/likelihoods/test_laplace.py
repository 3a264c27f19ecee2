"""The Laplace likelihood against torch.distributions."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Independent
from torch.distributions import Laplace as TorchLaplace

from vaescope.errors import ConfigurationError
from vaescope.likelihoods import Laplace

ITEMS = 6


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("scale", [0.1, 2.0])
@pytest.mark.parametrize("shape", [(5,), (2, 3, 4)])
def test_it_equals_torch(shape: tuple[int, ...], scale: float) -> None:
    mean, x = draw(ITEMS, *shape, seed=0), draw(ITEMS, *shape, seed=1)
    ours, theirs = Laplace(scale).module(tuple(mean.shape[1:]))(mean), TorchLaplace(mean, scale)
    torch.testing.assert_close(ours.log_prob(x), Independent(theirs, len(shape)).log_prob(x))
    torch.testing.assert_close(ours.variance, theirs.variance)
    assert torch.equal(ours.mean, mean)


def test_a_sample_is_the_quantile_of_its_noise() -> None:
    mean, noise = draw(ITEMS, 5, seed=0), 3 * draw(ITEMS, 5, seed=1)
    sample = Laplace(0.5).module(tuple(mean.shape[1:]))(mean).sample(noise)
    torch.testing.assert_close(TorchLaplace(mean, 0.5).cdf(sample), torch.special.ndtr(noise))


def test_samples_have_its_variance() -> None:
    likelihood = Laplace().module((2,))(torch.ones(100_000, 2).double())
    sample = likelihood.sample(draw(100_000, 2, seed=0))
    torch.testing.assert_close(sample.mean(0), torch.ones(2).double(), rtol=0, atol=0.002)
    torch.testing.assert_close(sample.var(0), likelihood.variance[0], rtol=0.03, atol=0)


def test_far_noise_gives_finite_items_and_an_exact_hit_a_finite_gradient() -> None:
    assert torch.isfinite(Laplace().module((2,))(torch.zeros(1, 2)).sample(torch.tensor([[-30.0, 30.0]]))).all()
    mean = torch.zeros(1, 2, requires_grad=True)
    Laplace().module(tuple(mean.shape[1:]))(mean).log_prob(torch.zeros(1, 2)).sum().backward()
    assert torch.isfinite(mean.grad).all()


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan])
def test_a_scale_that_is_not_positive_is_named(scale: float) -> None:
    with pytest.raises(ConfigurationError, match=f"scale .* above 0, got {scale!r}"):
        Laplace(scale)
