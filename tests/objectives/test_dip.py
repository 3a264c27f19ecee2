"""DIP-VAE I and II: covariances against numpy, and which of them are penalised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from vaescope.errors import ConfigurationError
from vaescope.likelihoods import Bernoulli
from vaescope.models import ForwardPass
from vaescope.numerics.distributions import DiagonalGaussian, FullGaussian
from vaescope.objectives import DIPI, DIPII, Beta, Context

VARIANTS = [DIPI, DIPII]
GENERATOR = torch.Generator().manual_seed(0)
MEAN, LOG_VARIANCE, Z = torch.randn(3, 6, 4, generator=GENERATOR, dtype=torch.float64)
LOWER = torch.randn(6, 4, 4, generator=GENERATOR, dtype=torch.float64).tril(-1)
LOGITS = torch.randn(6, 9, generator=GENERATOR, dtype=torch.float64)
LIKELIHOOD = Bernoulli().module(LOGITS.shape[1:])
X = torch.randint(2, (6, 9), generator=GENERATOR).double()
ALL = torch.ones(4, dtype=torch.float64)


def a_pass(posterior: Any = None) -> ForwardPass:
    zero = torch.zeros(4, dtype=torch.float64)
    posterior = DiagonalGaussian(MEAN, LOG_VARIANCE) if posterior is None else posterior
    return ForwardPass(posterior, Z, LIKELIHOOD(LOGITS), DiagonalGaussian(zero, zero))


def context(mask: Tensor = ALL) -> Context:
    return Context(torch.tensor(0), 100, mask)


def penalties(covariance: np.ndarray) -> tuple[float, float]:
    """Off the diagonal and on it, entry by entry."""
    entries = [(i, j) for i in range(len(covariance)) for j in range(len(covariance))]
    off_diagonal = sum(covariance[i, j] ** 2 for i, j in entries if i != j)
    return off_diagonal, sum((covariance[i, i] - 1) ** 2 for i in range(len(covariance)))


def check(terms: Any, covariance: np.ndarray) -> None:
    off_diagonal, diagonal = penalties(covariance)
    assert terms.values["off_diagonal"].tolist() == pytest.approx([off_diagonal] * 6)
    assert terms.values["diagonal"].tolist() == pytest.approx([diagonal] * 6)


def test_the_first_penalises_the_covariance_of_the_means() -> None:
    check(DIPI()(X, a_pass(), context()), np.cov(MEAN.numpy(), rowvar=False, bias=True))


def test_the_second_adds_the_mean_of_the_variances() -> None:
    covariance = np.cov(MEAN.numpy(), rowvar=False, bias=True) + np.diag(np.exp(LOG_VARIANCE.numpy()).mean(0))
    check(DIPII()(X, a_pass(), context()), covariance)


def test_the_second_adds_the_mean_of_full_covariances() -> None:
    posterior = FullGaussian(MEAN, LOWER + torch.diag_embed((LOG_VARIANCE / 2).exp()))
    own = np.mean([factor @ factor.T for factor in posterior.cholesky.numpy()], axis=0)
    check(DIPII()(X, a_pass(posterior), context()), np.cov(MEAN.numpy(), rowvar=False, bias=True) + own)


def test_the_second_is_about_the_covariance_of_sampled_codes() -> None:
    noise = torch.randn(20_000, 6, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    codes = (MEAN + (LOG_VARIANCE / 2).exp() * noise).flatten(0, 1)
    found = DIPII().covariance(DiagonalGaussian(MEAN, LOG_VARIANCE))
    np.testing.assert_allclose(np.cov(codes.numpy(), rowvar=False), found.numpy(), atol=0.05)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_loss_is_the_negative_elbo_and_the_weighted_penalties(variant: Any) -> None:
    terms = variant(2, 3)(X, a_pass(), context())
    extra = 2 * terms.values["off_diagonal"][0] + 3 * terms.values["diagonal"][0]
    torch.testing.assert_close(terms.loss, Beta(1)(X, a_pass(), context()).loss + extra)


@pytest.mark.parametrize("variant", VARIANTS)
def test_without_weights_it_is_the_vae(variant: Any) -> None:
    assert torch.equal(variant(0)(X, a_pass(), context()).loss, Beta(1)(X, a_pass(), context()).loss)


@pytest.mark.parametrize("variant", VARIANTS)
def test_latents_that_are_not_in_use_are_not_penalised(variant: Any) -> None:
    mask = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    zero = torch.zeros(2, dtype=torch.float64)
    narrow = DiagonalGaussian(MEAN[:, :2], LOG_VARIANCE[:, :2])
    small = ForwardPass(narrow, Z[:, :2], LIKELIHOOD(LOGITS), DiagonalGaussian(zero, zero))
    expected = variant()(X, small, context(ALL[:2])).loss
    found = variant()(X, a_pass(DiagonalGaussian(MEAN * mask, LOG_VARIANCE * mask)), context(mask)).loss
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(("variant", "ratio"), [(DIPI, 10.0), (DIPII, 1.0)])
def test_the_default_weight_of_the_diagonal_is_as_published(variant: Any, ratio: float) -> None:
    assert variant(5).lambda_diagonal == ratio * 5
    assert variant(5) == variant(5, ratio * 5)
    assert variant(5, 0).lambda_diagonal == 0


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("setting", ["lambda_off_diagonal", "lambda_diagonal"])
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), True, "4"])
def test_a_weight_out_of_range_is_named(variant: Any, setting: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{setting} .* at least 0, got "):
        variant(**{setting: value})
