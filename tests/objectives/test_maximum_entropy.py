"""The maximum-entropy objective: equation 5, and the scaling that makes it the beta-VAE's."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from vaescope.errors import ConfigurationError
from vaescope.likelihoods import Bernoulli
from vaescope.models import ForwardPass
from vaescope.numerics.distributions import DiagonalGaussian, FullGaussian
from vaescope.objectives import Beta, Context, MaximumEntropy

LATENTS = 4
GENERATOR = torch.Generator().manual_seed(0)
MEAN, LOG_VARIANCE, Z = torch.randn(3, 6, LATENTS, generator=GENERATOR, dtype=torch.float64)
CHOLESKY = torch.diag_embed((LOG_VARIANCE / 2).exp()) + torch.randn(
    6, LATENTS, LATENTS, generator=GENERATOR, dtype=torch.float64
).tril(-1)
LOGITS = torch.randn(6, 9, generator=GENERATOR, dtype=torch.float64)
LIKELIHOOD = Bernoulli().module(LOGITS.shape[1:])
PRIOR_LOG_VARIANCE = torch.randn(LATENTS, generator=GENERATOR, dtype=torch.float64)
X = torch.randint(2, (6, 9), generator=GENERATOR).double()
CONTEXT = Context(torch.tensor(0), 100, torch.ones(LATENTS, dtype=torch.float64))


def a_pass(posterior: Any, prior_log_variance: Tensor = PRIOR_LOG_VARIANCE) -> ForwardPass:
    prior = DiagonalGaussian(torch.zeros_like(prior_log_variance), prior_log_variance)
    return ForwardPass(posterior, Z, LIKELIHOOD(LOGITS), prior)


POSTERIORS = {"diagonal": DiagonalGaussian(MEAN, LOG_VARIANCE), "full": FullGaussian(MEAN, CHOLESKY)}


def scaled(posterior: Any, beta: float) -> Any:
    """sqrt(beta) z: what the posterior is in the larger space."""
    if isinstance(posterior, FullGaussian):
        return FullGaussian(beta**0.5 * posterior.mean, beta**0.5 * posterior.cholesky)
    return DiagonalGaussian(beta**0.5 * posterior.mean, posterior.log_variance + math.log(beta))


@pytest.mark.parametrize("name", POSTERIORS)
def test_it_rewards_the_log_determinant_of_the_covariance(name: str) -> None:
    posterior = POSTERIORS[name]
    covariance = torch.diag_embed(posterior.variance) if name == "diagonal" else CHOLESKY @ CHOLESKY.mT
    expected = Beta(1)(X, a_pass(posterior), CONTEXT).loss - (3 - 1) / 2 * torch.logdet(covariance).mean()
    torch.testing.assert_close(MaximumEntropy(3)(X, a_pass(posterior), CONTEXT).loss, expected)
    entropy = MultivariateNormal(MEAN, covariance).entropy()
    volume = MaximumEntropy(3)(X, a_pass(posterior), CONTEXT).values["log_volume"]
    torch.testing.assert_close(entropy - volume, torch.full_like(volume, LATENTS / 2 * (1 + math.log(2 * math.pi))))


@pytest.mark.parametrize("name", POSTERIORS)
@pytest.mark.parametrize("beta", [0.5, 2.0, 8.0])
def test_with_latents_scaled_by_the_root_of_beta_it_is_the_beta_vae_plus_a_constant(beta: float, name: str) -> None:
    posterior = POSTERIORS[name]
    # The decoder divides z by the root of beta again, so the reconstruction is the same.
    ours = MaximumEntropy(beta)(X, a_pass(scaled(posterior, beta)), CONTEXT).loss
    theirs = Beta(beta)(X, a_pass(posterior), CONTEXT).loss
    log_integral = (
        LATENTS / 2 * (math.log(2 * math.pi / beta) - beta * math.log(2 * math.pi))
        + (1 - beta) / 2 * PRIOR_LOG_VARIANCE.sum()
    )
    constant = LATENTS * (beta - 1) / 2 * (1 + math.log(2 * math.pi / beta)) + log_integral
    torch.testing.assert_close(ours, theirs + constant)


def test_without_scaling_it_differs_from_the_beta_vae() -> None:
    differences = [
        MaximumEntropy(4)(X, a_pass(posterior), CONTEXT).loss - Beta(4)(X, a_pass(posterior), CONTEXT).loss
        for posterior in (DiagonalGaussian(MEAN, LOG_VARIANCE), DiagonalGaussian(2 * MEAN, LOG_VARIANCE))
    ]
    assert abs(differences[0] - differences[1]) > 0.1


def test_a_beta_of_one_is_the_vae() -> None:
    result = a_pass(POSTERIORS["diagonal"])
    assert torch.equal(MaximumEntropy(1)(X, result, CONTEXT).loss, Beta(1)(X, result, CONTEXT).loss)


@pytest.mark.parametrize("beta", [-1, float("nan"), float("inf"), True, "4", None])
def test_a_beta_out_of_range_is_named(beta: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^beta .* at least 0, got "):
        MaximumEntropy(beta)
