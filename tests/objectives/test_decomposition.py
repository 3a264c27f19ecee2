"""The decomposition objective: both divergences by hand, and the terms that alpha and beta weight."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from vaescope.errors import ConfigurationError, UnknownNameError
from vaescope.likelihoods import Bernoulli
from vaescope.models import ForwardPass
from vaescope.numerics.aggregate import latent_mmd
from vaescope.numerics.distributions import DiagonalGaussian
from vaescope.objectives import Beta, Context, Decomposition

GENERATOR = torch.Generator().manual_seed(0)
MEAN, LOG_VARIANCE, Z, NOISE, PRIOR_MEAN, PRIOR_LOG_VARIANCE = torch.randn(
    6, 6, 4, generator=GENERATOR, dtype=torch.float64
)
LOGITS = torch.randn(6, 9, generator=GENERATOR, dtype=torch.float64)
LIKELIHOOD = Bernoulli().module(LOGITS.shape[1:])
X = torch.randint(2, (6, 9), generator=GENERATOR).double()
CONTEXT = Context(torch.tensor(0), 100, torch.ones(4, dtype=torch.float64), {"objective/prior": NOISE})
ZERO = torch.zeros(4, dtype=torch.float64)
STANDARD = DiagonalGaussian(ZERO, ZERO)


def a_pass(prior: Any = STANDARD, mean: Tensor = MEAN) -> ForwardPass:
    return ForwardPass(DiagonalGaussian(mean, LOG_VARIANCE), Z, LIKELIHOOD(LOGITS), prior)


def mixture(mean: Tensor, log_variance: Tensor) -> MixtureSameFamily:
    equal = Categorical(torch.ones(len(mean), dtype=torch.float64))
    return MixtureSameFamily(equal, Independent(Normal(mean, (log_variance / 2).exp()), 1))


@pytest.mark.parametrize("divergence", ["mmd", "kl"])
@pytest.mark.parametrize("beta", [0, 1, 4])
def test_an_alpha_of_zero_is_the_beta_vae(beta: float, divergence: Any) -> None:
    found = Decomposition(0, beta, divergence)(X, a_pass(), CONTEXT).loss
    assert torch.equal(found, Beta(beta)(X, a_pass(), CONTEXT).loss)


@pytest.mark.parametrize("divergence", ["mmd", "kl"])
def test_alpha_weights_the_divergence(divergence: Any) -> None:
    terms = Decomposition(3, 2, divergence)(X, a_pass(), CONTEXT)
    extra = 3 * terms.values["divergence"].mean()
    torch.testing.assert_close(terms.loss, Beta(2)(X, a_pass(), CONTEXT).loss + extra)


def test_the_discrepancy_is_between_the_codes_and_equally_many_from_the_prior() -> None:
    found = Decomposition()(X, a_pass(), CONTEXT).values["divergence"]
    torch.testing.assert_close(found, latent_mmd(Z, NOISE).sum().expand(6))


def test_the_divergence_of_the_prior_is_taken_at_its_own_codes() -> None:
    found = Decomposition(divergence="kl")(X, a_pass(), CONTEXT).values["divergence"]
    prior = Independent(Normal(ZERO, 1.0), 1)
    torch.testing.assert_close(found, prior.log_prob(NOISE) - mixture(MEAN, LOG_VARIANCE).log_prob(NOISE))


def test_a_prior_for_each_item_counts_as_their_mixture() -> None:
    prior = DiagonalGaussian(PRIOR_MEAN, PRIOR_LOG_VARIANCE)
    codes = PRIOR_MEAN + (PRIOR_LOG_VARIANCE / 2).exp() * NOISE
    found = Decomposition(divergence="kl")(X, a_pass(prior), CONTEXT).values["divergence"]
    expected = mixture(PRIOR_MEAN, PRIOR_LOG_VARIANCE).log_prob(codes) - mixture(MEAN, LOG_VARIANCE).log_prob(codes)
    torch.testing.assert_close(found, expected)


def test_the_divergence_is_zero_if_every_posterior_is_the_prior() -> None:
    result = ForwardPass(DiagonalGaussian(0 * MEAN, 0 * MEAN), Z, LIKELIHOOD(LOGITS), STANDARD)
    found = Decomposition(divergence="kl")(X, result, CONTEXT).values["divergence"]
    torch.testing.assert_close(found, torch.zeros(6, dtype=torch.float64))


def test_the_divergence_reaches_the_encoder() -> None:
    for divergence in ("mmd", "kl"):
        mean = MEAN.clone().requires_grad_()
        posterior = DiagonalGaussian(mean, LOG_VARIANCE)
        result = ForwardPass(posterior, posterior.sample(Z), LIKELIHOOD(LOGITS), STANDARD)
        values = Decomposition(divergence=divergence)(X, result, CONTEXT).values["divergence"]
        assert torch.autograd.grad(values.mean(), mean)[0].all()


def test_a_batch_of_one_has_no_pairs_to_compare() -> None:
    one = ForwardPass(DiagonalGaussian(MEAN[:1], LOG_VARIANCE[:1]), Z[:1], LIKELIHOOD(LOGITS[:1]), STANDARD)
    context = Context(CONTEXT.step, 100, CONTEXT.mask, {"objective/prior": NOISE[:1]})
    assert torch.isfinite(Decomposition(divergence="kl")(X[:1], one, context).loss)
    with pytest.raises(ConfigurationError, match=r"batch must be at least 2, got 1\.$"):
        Decomposition(divergence="mmd")(X[:1], one, context)


@pytest.mark.parametrize("setting", ["alpha", "beta"])
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), True, "4", None])
def test_a_weight_out_of_range_is_named(setting: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{setting} .* at least 0, got "):
        Decomposition(**{setting: value})


@pytest.mark.parametrize("divergence", ["MMD", "", None, 3])
def test_an_unknown_divergence_is_named(divergence: Any) -> None:
    with pytest.raises(UnknownNameError, match=r"^divergence .*kl, mmd") as found:
        Decomposition(divergence=divergence)
    assert repr(divergence) in str(found.value)
