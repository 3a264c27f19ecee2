"""The aggregate posterior of a batch: plain loops, exact mixtures, and the mean over all batches."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import Tensor
from torch.distributions import Categorical, Independent, MixtureSameFamily, MultivariateNormal, Normal

from vaescope.numerics.aggregate import ESTIMATORS, Estimator, aggregate, log_mixture
from vaescope.numerics.distributions import DiagonalGaussian, FullGaussian

ITEMS, LATENTS = 5, 3


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


MEAN, LOG_VARIANCE, Z = draw(3, ITEMS, LATENTS)
POSTERIOR = DiagonalGaussian(MEAN, LOG_VARIANCE)


def full() -> FullGaussian:
    lower = torch.tril(draw(ITEMS, LATENTS, LATENTS, seed=4), -1)
    return FullGaussian(MEAN, lower + torch.diag_embed((LOG_VARIANCE / 2).exp()))


def weight(estimator: str, own: bool, items: int) -> float:
    if estimator == "weighted":
        return 1 / (items * ITEMS)
    if estimator == "plain":
        return 1 / ITEMS
    return 1 / items if own else (items - 1) / (items * (ITEMS - 1))


@pytest.mark.parametrize("items", [ITEMS, 7, 1000])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_density_is_a_weighted_sum_over_the_batch(estimator: Estimator, items: int) -> None:
    found = aggregate(POSTERIOR, Z, items, estimator)
    densities = norm.pdf(Z[:, None].numpy(), MEAN.numpy(), (LOG_VARIANCE / 2).exp().numpy())
    for i in range(ITEMS):
        weights = np.array([weight(estimator, i == k, items) for k in range(ITEMS)])
        assert float(found.joint[i]) == pytest.approx(math.log(weights @ densities[i].prod(1)))
        assert found.marginals[i].tolist() == pytest.approx(np.log(weights @ densities[i]).tolist())


@pytest.mark.parametrize("estimator", ["stratified", "plain"])
def test_a_batch_of_all_items_gives_the_exact_mixture(estimator: Estimator) -> None:
    found = aggregate(POSTERIOR, Z, ITEMS, estimator)
    equal = Categorical(torch.ones(ITEMS, dtype=torch.float64))
    scale = (LOG_VARIANCE / 2).exp()
    joint = MixtureSameFamily(equal, Independent(Normal(MEAN, scale), 1)).log_prob(Z)
    torch.testing.assert_close(found.joint, joint)
    for j in range(LATENTS):
        marginal = MixtureSameFamily(equal, Normal(MEAN[:, j], scale[:, j])).log_prob(Z[:, j])
        torch.testing.assert_close(found.marginals[:, j], marginal)


def test_the_weighted_estimator_is_lower_by_the_log_of_the_number_of_items() -> None:
    weighted, plain = (aggregate(POSTERIOR, Z, 1000, name) for name in ("weighted", "plain"))
    torch.testing.assert_close(weighted.joint, plain.joint - math.log(1000))
    torch.testing.assert_close(weighted.marginals, plain.marginals - math.log(1000))


@pytest.mark.parametrize("batch", [2, 3, 4])
def test_the_stratified_estimator_is_unbiased_over_all_batches_that_hold_the_item(batch: int) -> None:
    exact = aggregate(POSTERIOR, Z, ITEMS, "plain").joint[0].exp()
    found = []
    for others in combinations(range(1, ITEMS), batch - 1):
        chosen = [0, *others]
        part = DiagonalGaussian(MEAN[chosen], LOG_VARIANCE[chosen])
        found.append(aggregate(part, Z[chosen], ITEMS, "stratified").joint[0].exp())
    torch.testing.assert_close(torch.stack(found).mean(), exact)


def test_a_full_covariance_has_its_joint_density_and_its_marginals() -> None:
    posterior = full()
    found = aggregate(posterior, Z, ITEMS, "stratified")
    equal = Categorical(torch.ones(ITEMS, dtype=torch.float64))
    joint = MixtureSameFamily(equal, MultivariateNormal(MEAN, scale_tril=posterior.cholesky)).log_prob(Z)
    torch.testing.assert_close(found.joint, joint)
    scale = (posterior.cholesky @ posterior.cholesky.mT).diagonal(dim1=1, dim2=2).sqrt()
    for j in range(LATENTS):
        marginal = MixtureSameFamily(equal, Normal(MEAN[:, j], scale[:, j])).log_prob(Z[:, j])
        torch.testing.assert_close(found.marginals[:, j], marginal)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(("batch", "items"), [(1, 1), (1, 10), (2, 1), (5, 2)])
def test_very_small_and_very_large_batches_stay_finite(estimator: Estimator, batch: int, items: int) -> None:
    found = aggregate(DiagonalGaussian(MEAN[:batch], LOG_VARIANCE[:batch]), Z[:batch], items, estimator)
    assert torch.isfinite(found.joint).all()
    assert torch.isfinite(found.marginals).all()


def test_a_mixture_is_the_mean_density_of_its_components() -> None:
    codes = draw(9, LATENTS, seed=2)
    scale = (LOG_VARIANCE / 2).exp()
    densities = torch.stack([Independent(Normal(MEAN[i], scale[i]), 1).log_prob(codes).exp() for i in range(ITEMS)])
    torch.testing.assert_close(log_mixture(POSTERIOR, codes), densities.mean(0).log())
    single = DiagonalGaussian(MEAN[0], LOG_VARIANCE[0])
    torch.testing.assert_close(log_mixture(single, codes), single.log_prob(codes))
