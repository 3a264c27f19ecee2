"""The beta-TC objective: the parts of the rate against exact mixtures, and the part that beta weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import Tensor

from vaescope.errors import UnknownNameError
from vaescope.likelihoods import Bernoulli
from vaescope.models import ForwardPass
from vaescope.numerics.aggregate import ESTIMATORS
from vaescope.numerics.distributions import DiagonalGaussian
from vaescope.objectives import Beta, BetaTC, Context

BATCH, LATENTS, ITEMS = 6, 4, 100
PARTS = ("index_code_information", "total_correlation", "dimension_wise_rate")


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


MEAN, LOG_VARIANCE, NOISE = draw(3, BATCH, LATENTS)
LOGITS, X = draw(BATCH, 9, seed=1), (draw(BATCH, 9, seed=2) > 0).double()
LIKELIHOOD = Bernoulli().module(LOGITS.shape[1:])
CONTEXT = Context(torch.tensor(0), ITEMS, torch.ones(LATENTS, dtype=torch.float64))


def a_pass(mean: Tensor = MEAN, log_variance: Tensor = LOG_VARIANCE, noise: Tensor = NOISE) -> ForwardPass:
    posterior = DiagonalGaussian(mean, log_variance)
    zero = torch.zeros(mean.shape[1], dtype=torch.float64)
    likelihood = LIKELIHOOD(LOGITS[: len(mean)])
    return ForwardPass(posterior, posterior.sample(noise), likelihood, DiagonalGaussian(zero, zero))


def test_a_beta_of_one_is_the_vae_to_the_last_bit() -> None:
    for estimator in ESTIMATORS:
        assert torch.equal(BetaTC(1, estimator)(X, a_pass(), CONTEXT).loss, Beta(1)(X, a_pass(), CONTEXT).loss)


@pytest.mark.parametrize("beta", [0, 0.5, 8])
def test_beta_weights_only_the_total_correlation(beta: float) -> None:
    terms = BetaTC(beta)(X, a_pass(), CONTEXT)
    extra = (beta - 1) * terms.values["total_correlation"].mean()
    torch.testing.assert_close(terms.loss, Beta(1)(X, a_pass(), CONTEXT).loss + extra)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_parts_add_up_to_the_rate_at_the_sample(estimator: Any) -> None:
    result = a_pass()
    terms = BetaTC(4, estimator)(X, result, CONTEXT)
    at_sample = result.posterior.log_prob(result.z) - result.prior.log_prob(result.z)
    torch.testing.assert_close(sum(terms.values[part] for part in PARTS), at_sample)


def disentanglement_lib(z: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    """Total correlation as in disentanglement_lib's `total_correlation`: log-sum-exps without a normaliser."""
    density = -0.5 * (
        (z[:, None] - mean[None]) ** 2 * torch.exp(-log_variance[None]) + log_variance[None] + math.log(2 * math.pi)
    )
    product = torch.logsumexp(density, dim=1).sum(1)
    return (torch.logsumexp(density.sum(2), dim=1) - product).mean()


def test_the_plain_estimator_equals_that_of_disentanglement_lib_up_to_a_constant() -> None:
    result = a_pass()
    found = BetaTC(4, "plain")(X, result, CONTEXT).values["total_correlation"].mean()
    expected = disentanglement_lib(result.z, MEAN, LOG_VARIANCE) + (LATENTS - 1) * math.log(BATCH)
    torch.testing.assert_close(found, expected)


def test_the_weighted_and_the_plain_estimator_have_the_same_gradient() -> None:
    gradients = []
    for estimator in ("weighted", "plain", "stratified"):
        mean = MEAN.clone().requires_grad_()
        loss = BetaTC(4, estimator)(X, a_pass(mean), CONTEXT).loss
        gradients.append(torch.autograd.grad(loss, mean)[0])
    torch.testing.assert_close(gradients[0], gradients[1])
    assert not torch.allclose(gradients[0], gradients[2])


def exact_parts(mean: np.ndarray, scale: np.ndarray) -> dict[str, float]:
    """Of an equal mixture of Gaussians in the plane, by summing over a fine grid."""
    axis = np.linspace(-8, 8, 401)
    one, other = (norm.pdf(axis, mean[:, [j]], scale[:, [j]]) for j in (0, 1))
    area = (axis[1] - axis[0]) ** 2
    conditional = one[:, :, None] * other[:, None, :]
    joint, product = conditional.mean(0), np.outer(one.mean(0), other.mean(0))
    prior = np.outer(norm.pdf(axis), norm.pdf(axis))

    def expected(values: np.ndarray, of: np.ndarray) -> float:
        # Far out the density underflows to 0 and adds nothing.
        return float(np.where(of > 1e-200, of * np.log(np.maximum(values, 1e-300)), 0).sum() * area)

    return {
        "index_code_information": np.mean([expected(q, q) for q in conditional]) - expected(joint, joint),
        "total_correlation": expected(joint, joint) - expected(product, joint),
        "dimension_wise_rate": expected(product, joint) - expected(prior, joint),
    }


@pytest.mark.parametrize("estimator", ["stratified", "plain"])
def test_over_all_items_the_parts_are_those_of_the_exact_mixture(estimator: Any) -> None:
    mean = torch.tensor([[-1.0, -1.0], [1.0, 1.2], [0.1, 0.0], [2.0, 1.5]], dtype=torch.float64)
    log_variance = torch.tensor([[-1.0, -0.5], [-1.5, -1.0], [0.0, -1.0], [-1.2, -0.7]], dtype=torch.float64)
    context = Context(torch.tensor(0), 4, torch.ones(2, dtype=torch.float64))
    objective, found = BetaTC(4, estimator), {part: [] for part in PARTS}
    for noise in draw(800, 4, 2, seed=5):
        values = objective(X[:4], a_pass(mean, log_variance, noise), context).values
        for part in PARTS:
            found[part].append(float(values[part].mean()))
    for part, exact in exact_parts(mean.numpy(), (log_variance / 2).exp().numpy()).items():
        error = np.std(found[part]) / len(found[part]) ** 0.5
        assert exact > 0.1
        assert error < 0.02
        assert abs(np.mean(found[part]) - exact) < 4 * error, part


def test_independent_latents_have_no_total_correlation() -> None:
    # All pairs of two values of each latent: q(z) is the product of its marginals.
    mean = torch.tensor([[a, b] for a in (-1.0, 2.0) for b in (0.0, 1.0)], dtype=torch.float64)
    context = Context(torch.tensor(0), 4, torch.ones(2, dtype=torch.float64))
    terms = BetaTC(4, "stratified")(X[:4], a_pass(mean, torch.full_like(mean, -2), NOISE[:4, :2]), context)
    torch.testing.assert_close(terms.values["total_correlation"], torch.zeros(4, dtype=torch.float64))


@pytest.mark.parametrize("estimator", ["Plain", "", None, 3, ["plain"]])
def test_an_unknown_estimator_is_named(estimator: Any) -> None:
    with pytest.raises(UnknownNameError, match=r"^estimator .*plain, stratified, weighted") as found:
        BetaTC(4, estimator)
    assert repr(estimator) in str(found.value)
