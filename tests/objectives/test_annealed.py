"""The annealed objective: how the capacity grows, and which rate is compared with it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from vaescope.errors import ConfigurationError
from vaescope.likelihoods import Bernoulli
from vaescope.models import ForwardPass
from vaescope.numerics.distributions import DiagonalGaussian
from vaescope.objectives import Annealed, Context

GENERATOR = torch.Generator().manual_seed(0)
MEAN, LOG_VARIANCE, Z = torch.randn(3, 6, 4, generator=GENERATOR, dtype=torch.float64)
LOGITS = torch.randn(6, 9, generator=GENERATOR, dtype=torch.float64)
LIKELIHOOD = Bernoulli().module(LOGITS.shape[1:])
X = torch.randint(2, (6, 9), generator=GENERATOR).double()


def a_pass(mean: Tensor = MEAN) -> ForwardPass:
    zero = torch.zeros(4, dtype=torch.float64)
    return ForwardPass(
        DiagonalGaussian(mean, LOG_VARIANCE),
        Z,
        LIKELIHOOD(LOGITS),
        DiagonalGaussian(zero, zero),
    )


def context(step: int = 0) -> Context:
    return Context(torch.tensor(step), 100, torch.ones(4, dtype=torch.float64))


def rate() -> Tensor:
    result = a_pass()
    return result.posterior.kl(result.prior)


def reconstruction() -> Tensor:
    return -a_pass().likelihood.log_prob(X)


@pytest.mark.parametrize("step", [0, 7])
def test_without_capacity_it_is_gamma_times_the_rate(step: int) -> None:
    found = Annealed(gamma=8, capacity=0, steps=10)(X, a_pass(), context(step)).loss
    torch.testing.assert_close(found, (reconstruction() + 8 * rate()).mean())


@pytest.mark.parametrize(("step", "capacity"), [(0, 0.0), (1, 0.3), (5, 1.5), (10, 3.0), (10_000, 3.0)])
def test_the_capacity_rises_in_even_steps_and_then_stays(step: int, capacity: float) -> None:
    terms = Annealed(gamma=8, capacity=3, steps=10)(X, a_pass(), context(step))
    expected = (rate().mean() - capacity).abs()
    torch.testing.assert_close(terms.values["capacity_distance"], expected.expand(6))
    torch.testing.assert_close(terms.loss, reconstruction().mean() + 8 * expected)


def test_the_mean_rate_of_the_batch_is_compared_and_not_each_example() -> None:
    capacity = float(rate().mean())
    terms = Annealed(gamma=8, capacity=capacity, steps=1)(X, a_pass(), context(1))
    assert (rate() - capacity).abs().min() > 1e-3
    torch.testing.assert_close(terms.loss, reconstruction().mean())


@pytest.mark.parametrize(("capacity", "sign"), [(0.0, 1), (1e3, -1)])
def test_a_rate_below_the_capacity_is_pushed_up_and_one_above_it_down(capacity: float, sign: int) -> None:
    mean = MEAN.clone().requires_grad_()
    loss = Annealed(gamma=8, capacity=capacity, steps=1)(X, a_pass(mean), context(1)).loss
    torch.testing.assert_close(torch.autograd.grad(loss, mean)[0], sign * 8 * MEAN / 6)


def test_the_rate_is_reported_with_weight_zero() -> None:
    terms = Annealed()(X, a_pass(), context())
    torch.testing.assert_close(terms.values["rate"], rate())
    assert float(terms.weights["rate"]) == 0


@pytest.mark.parametrize(("setting", "least"), [("gamma", 0), ("capacity", 0), ("steps", 1)])
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), True, "4", None])
def test_a_setting_out_of_range_is_named(setting: str, least: int, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{setting} .* at least {least}, got "):
        Annealed(**{setting: value})
