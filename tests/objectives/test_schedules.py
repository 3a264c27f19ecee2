"""Warm-up and free bits, which every objective has: their effect on the loss and its gradient."""

from __future__ import annotations

import pytest
import torch

from vaescope.likelihoods import Bernoulli
from vaescope.models import ForwardPass
from vaescope.numerics.distributions import DiagonalGaussian
from vaescope.objectives import Beta, Context
from vaescope.priors import Standard

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randint(2, (5, 4), generator=GENERATOR).double()
LOGITS = torch.randn(5, 4, generator=GENERATOR, dtype=torch.float64)
LIKELIHOOD = Bernoulli().module(LOGITS.shape[1:])
MASK = torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=torch.float64)


def a_pass(scale: float = 1.0) -> tuple[ForwardPass, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    mean = (scale * torch.randn(5, 4, generator=generator, dtype=torch.float64) * MASK).requires_grad_()
    posterior = DiagonalGaussian(mean, torch.zeros_like(mean))
    return ForwardPass(posterior, mean, LIKELIHOOD(LOGITS), Standard().module(4)(MASK)), mean


def context(step: int = 0) -> Context:
    return Context(torch.tensor(step), 100, MASK)


@pytest.mark.parametrize(("step", "share"), [(0, 0.1), (4, 0.5), (9, 1.0), (500, 1.0)])
def test_the_rate_warms_up_and_the_reconstruction_does_not(step: int, share: float) -> None:
    result, _ = a_pass()
    terms = Beta(4.0, warm_up=10)(X, result, context(step))
    assert float(terms.weights["rate"]) == pytest.approx(4.0 * share)
    assert terms.weights["reconstruction"] == 1.0


def test_without_warm_up_the_full_weight_applies_at_once() -> None:
    assert float(Beta(4.0)(X, a_pass()[0], context()).weights["rate"]) == 4.0


def test_each_latent_in_use_counts_at_least_its_free_bits() -> None:
    result, _ = a_pass()
    rates = result.posterior.latent_kl(result.prior)
    for free in (0.01, 0.3, 5.0):
        expected = rates.mean(0).clamp(min=free)[:3].sum()
        found = Beta(1.0, free_bits=free)(X, result, context()).values["rate"].mean()
        torch.testing.assert_close(found, expected)


def test_a_latent_below_its_free_bits_has_no_gradient_and_the_others_keep_theirs() -> None:
    result, mean = a_pass()
    rates = result.posterior.latent_kl(result.prior).mean(0).detach()
    free = float(rates[:3].sort().values[1]) * 1.0001
    (gradient,) = torch.autograd.grad(Beta(1.0, free_bits=free)(X, result, context()).values["rate"].mean(), mean)
    (whole,) = torch.autograd.grad(Beta(1.0)(X, result, context()).values["rate"].mean(), mean)
    above = rates > free
    assert above.sum() == 1
    torch.testing.assert_close(gradient[:, above], whole[:, above])
    assert not gradient[:, ~above].any()


def test_without_free_bits_the_rate_is_unchanged() -> None:
    result, _ = a_pass()
    found = Beta(1.0)(X, result, context()).values["rate"]
    torch.testing.assert_close(found, result.posterior.kl(result.prior))
