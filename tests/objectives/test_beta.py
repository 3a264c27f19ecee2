"""The beta objective: terms and their weights, the ELBO by hand, and valid values of beta."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli as TorchBernoulli
from torch.distributions import Independent, Normal, kl_divergence

from vaescope.errors import ConfigurationError
from vaescope.likelihoods import Bernoulli
from vaescope.models import ForwardPass
from vaescope.numerics.distributions import DiagonalGaussian, Point
from vaescope.objectives import Beta, Context, Terms, in_words, strengths, with_strengths
from vaescope.priors import Standard

CONTEXT = Context(torch.tensor(0), 100, torch.ones(4, dtype=torch.float64))
GENERATOR = torch.Generator().manual_seed(0)
MEAN, LOG_VARIANCE, Z = torch.randn(3, 6, 4, generator=GENERATOR, dtype=torch.float64)
LOGITS = torch.randn(6, 1, 3, 3, generator=GENERATOR, dtype=torch.float64)
LIKELIHOOD = Bernoulli().module(LOGITS.shape[1:])
X = torch.randint(2, (6, 1, 3, 3), generator=GENERATOR).double()


def a_pass() -> ForwardPass:
    prior = Standard().module(4)(torch.ones(4, dtype=torch.float64))
    return ForwardPass(DiagonalGaussian(MEAN, LOG_VARIANCE), Z, LIKELIHOOD(LOGITS), prior)


def by_hand() -> tuple[Tensor, Tensor]:
    """-log p(x|z) and KL(q(z|x) || N(0, I)) of each example, by torch."""
    reconstruction = -Independent(TorchBernoulli(logits=LOGITS), 3).log_prob(X)
    standard = Independent(Normal(torch.zeros_like(MEAN), 1.0), 1)
    return reconstruction, kl_divergence(Independent(Normal(MEAN, (LOG_VARIANCE / 2).exp()), 1), standard)


def test_the_loss_is_the_batch_mean_of_the_weighted_sum() -> None:
    terms = Terms({"a": torch.tensor([1.0, 3.0]), "b": torch.tensor([10.0, 20.0])}, {"a": 2.0, "b": torch.tensor(0.5)})
    assert terms.loss.item() == 2 * 2 + 0.5 * 15
    assert {name: value.item() for name, value in terms.means().items()} == {"loss": 11.5, "a": 2.0, "b": 15.0}


def test_a_beta_of_one_is_the_negative_elbo() -> None:
    reconstruction, rate = by_hand()
    torch.testing.assert_close(Beta()(X, a_pass(), CONTEXT).loss, (reconstruction + rate).mean())


@pytest.mark.parametrize("beta", [0, 0.5, 4.0])
def test_beta_weights_the_rate_and_does_not_change_the_terms(beta: float) -> None:
    reconstruction, rate = by_hand()
    terms = Beta(beta)(X, a_pass(), CONTEXT)
    assert set(terms.values) == set(terms.weights) == {"reconstruction", "rate"}
    torch.testing.assert_close(terms.values["reconstruction"], reconstruction)
    torch.testing.assert_close(terms.values["rate"], rate)
    torch.testing.assert_close(terms.loss, (reconstruction + beta * rate).mean())


def test_a_deterministic_code_has_no_rate() -> None:
    result = ForwardPass(Point(MEAN), MEAN, LIKELIHOOD(LOGITS), None)
    terms = Beta(100.0)(X, result, CONTEXT)
    assert torch.equal(terms.values["rate"], torch.zeros(6, dtype=torch.float64))
    torch.testing.assert_close(terms.loss, by_hand()[0].mean())


def test_strengths_are_the_numbers_that_members_may_differ_in() -> None:
    assert strengths(Beta(4)) == {"beta": 4.0, "warm_up": 0.0, "free_bits": 0.0}
    assert in_words(Beta(4)) == "beta 4"
    assert in_words(Beta(4, warm_up=100)) == "beta 4, warm_up 100"
    assert type(Beta(4).beta) is float


def test_a_strength_may_become_a_tensor() -> None:
    other = with_strengths(Beta(4.0), {"beta": torch.tensor(2.0, dtype=torch.float64)})
    torch.testing.assert_close(other(X, a_pass(), CONTEXT).loss, Beta(2.0)(X, a_pass(), CONTEXT).loss)


@pytest.mark.parametrize("beta", [-1, -0.5, float("nan"), float("inf"), True, "4", None, [1.0]])
def test_beta_must_be_finite_and_not_negative(beta: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^beta .* at least 0, got ") as refusal:
        Beta(beta)
    assert str(refusal.value).endswith(f"got {beta!r}.")
