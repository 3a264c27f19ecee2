"""Likelihoods of counts against scipy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from vaescope.errors import ConfigurationError
from vaescope.likelihoods import LIKELIHOODS, NegativeBinomial, Poisson
from vaescope.numerics.moments import Spread

ITEMS, SHAPE = 7, (2, 3)
EVERY = [
    Poisson(),
    Poisson("decoded"),
    NegativeBinomial(),
    NegativeBinomial("decoded", dispersion="shared"),
    NegativeBinomial(zero_inflated=True),
    NegativeBinomial("decoded", zero_inflated=True),
]


def counts(seed: int = 0) -> Tensor:
    draw = np.random.default_rng(seed)
    drawn = draw.negative_binomial(1, 0.02, (ITEMS, *SHAPE)) * draw.integers(0, 2, (ITEMS, *SHAPE))
    return torch.tensor(drawn, dtype=torch.float64)


def output(seed: int = 1) -> Tensor:
    return torch.randn((ITEMS, *SHAPE), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def built(likelihood: Poisson | NegativeBinomial) -> torch.nn.Module:
    """The module, with parameters that differ between dimensions."""
    module = likelihood.module(SHAPE).double()
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter.copy_(torch.linspace(-1, 2, parameter.numel()).view_as(parameter) - number)
    return module


def means(likelihood: Poisson | NegativeBinomial, totals: np.ndarray) -> np.ndarray:
    rates = output().exp().numpy()
    if likelihood.total == "decoded":
        return rates
    return totals[:, None, None] * rates / rates.sum((1, 2), keepdims=True)


def by_scipy(likelihood: Poisson | NegativeBinomial, x: np.ndarray, mean: np.ndarray) -> np.ndarray:
    module = built(likelihood)
    if isinstance(likelihood, Poisson):
        return stats.poisson.logpmf(x, mean)
    theta = module.log_theta.exp().detach().numpy()
    found = stats.nbinom.logpmf(x, theta, theta / (theta + mean))
    if module.zero_logit is None:
        return found
    zero = torch.sigmoid(module.zero_logit).detach().numpy()
    return np.log(zero * (x == 0) + (1 - zero) * np.exp(found))


@pytest.mark.parametrize("likelihood", EVERY, ids=str)
def test_log_likelihoods_are_those_of_scipy(likelihood: Poisson | NegativeBinomial) -> None:
    x = counts()
    expected = by_scipy(likelihood, x.numpy(), means(likelihood, x.numpy().sum((1, 2)))).sum((1, 2))
    found = built(likelihood)(output()).log_prob(x).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("likelihood", EVERY, ids=str)
def test_means_and_variances_are_those_of_all_counts(likelihood: Poisson | NegativeBinomial) -> None:
    module = built(likelihood)
    module.fit_items(Spread.of(torch.full((3, 6), 2.0)))
    distribution = module(output())
    grid = np.arange(20_000)[:, None, None, None]
    with np.errstate(divide="ignore"):
        chances = np.exp(by_scipy(likelihood, grid, means(likelihood, np.full(ITEMS, 12.0))))
    mean = (grid * chances).sum(0)
    np.testing.assert_allclose(distribution.mean.detach(), mean, rtol=1e-8)
    np.testing.assert_allclose(distribution.variance.detach(), ((grid - mean) ** 2 * chances).sum(0), rtol=1e-8)


@pytest.mark.parametrize("likelihood", EVERY, ids=str)
def test_samples_are_the_quantiles_of_their_noise(likelihood: Poisson | NegativeBinomial) -> None:
    module = built(likelihood)
    module.fit_items(Spread.of(torch.full((3, 6), 50.0)))
    noise = torch.rand((ITEMS, *SHAPE), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    sample = module(output()).sample(noise).detach().numpy()
    grid = np.arange(20_000)[:, None, None, None]
    with np.errstate(divide="ignore"):
        below = np.exp(by_scipy(likelihood, grid, means(likelihood, np.full(ITEMS, 300.0)))).cumsum(0)
    np.testing.assert_array_equal(sample, (below < noise.numpy()).sum(0))


def test_noise_next_to_one_ends() -> None:
    distribution = Poisson("decoded").module((1,))(torch.tensor([[3.0]]))
    assert torch.isfinite(distribution.sample(torch.tensor([[1.0]]))).all()


@pytest.mark.parametrize("likelihood", EVERY, ids=str)
def test_items_without_a_count_and_extreme_outputs_keep_density_and_gradient_finite(
    likelihood: Poisson | NegativeBinomial,
) -> None:
    module = likelihood.module((2,))
    given = torch.tensor([[60.0, -60.0], [0.0, 0.0]], requires_grad=True)
    x = torch.tensor([[5.0, 100.0], [0.0, 0.0]])
    value = module(given).log_prob(x)
    value.sum().backward()
    assert torch.isfinite(value).all()
    assert torch.isfinite(given.grad).all()


def test_an_encoder_is_given_the_logs_of_the_counts() -> None:
    x = counts()
    for name in ("poisson", "negative_binomial"):
        assert torch.equal(LIKELIHOODS.resolve(name).preprocess(x), torch.log1p(x))
    for name in ("gaussian", "bernoulli", "laplace"):
        assert LIKELIHOODS.resolve(name).preprocess(x) is x


@pytest.mark.parametrize("options", [{"total": "all"}, {"dispersion": "cell"}], ids=lambda options: next(iter(options)))
def test_a_wrong_option_is_named(options: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        LIKELIHOODS.resolve({"name": "negative_binomial", **options})
