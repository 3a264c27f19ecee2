"""The aggregate posterior of a batch, and the discrepancy from other codes: plain loops, exact mixtures, means."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import Tensor
from torch.distributions import Categorical, Independent, MixtureSameFamily, MultivariateNormal, Normal

from vaescope.numerics.aggregate import ESTIMATORS, Estimator, aggregate, latent_mmd, log_mixture
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


def by_hand(one: list[float], other: list[float]) -> float:
    """The discrepancy of one latent, pair by pair."""

    def similarity(a: float, b: float) -> float:
        return sum(c / (c + (a - b) ** 2) for c in (0.2, 0.4, 1.0, 2.0, 4.0, 10.0))

    total = 0.0
    for codes in (one, other):
        pairs = [(i, j) for i in range(len(codes)) for j in range(len(codes)) if i != j]
        total += sum(similarity(codes[i], codes[j]) for i, j in pairs) / len(pairs)
    return total - 2 * sum(similarity(a, b) for a in one for b in other) / (len(one) * len(other))


def test_mmd_equals_a_double_loop_over_pairs() -> None:
    for one, other in ((draw(5, 3), 2 * draw(5, 3, seed=1)), (draw(7, 2), draw(4, 2, seed=1) + 1)):
        expected = [by_hand(one[:, j].tolist(), other[:, j].tolist()) for j in range(one.shape[1])]
        torch.testing.assert_close(latent_mmd(one, other), torch.tensor(expected, dtype=torch.float64))


def test_mmd_of_one_distribution_is_zero_on_average() -> None:
    found = latent_mmd(draw(20, 4000), draw(20, 4000, seed=1))
    assert (found < 0).any()
    assert abs(found.mean()) < 4 * found.std() / 4000**0.5


def test_mmd_compares_latents_separately() -> None:
    one, other = draw(200, 3), draw(200, 3, seed=1) + torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
    found = latent_mmd(one, other)
    assert found[1] > 0.3
    assert found[[0, 2]].abs().max() < 0.1


def test_mmd_is_symmetric() -> None:
    one, other = draw(6, 2), draw(6, 2, seed=1)
    torch.testing.assert_close(latent_mmd(one, other), latent_mmd(other, one))


def test_the_gradient_of_mmd_equals_finite_differences() -> None:
    assert torch.autograd.gradcheck(latent_mmd, (draw(4, 2).requires_grad_(), draw(3, 2, seed=1).requires_grad_()))
