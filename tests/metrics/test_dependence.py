"""Dependence between latents against densities, matrix square roots and entropies computed in another way."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm
from scipy.stats import entropy, multivariate_normal

from vaescope.errors import DataError
from vaescope.metrics import effective_rank, gaussian_wasserstein_correlation, total_correlation

GENERATOR = np.random.default_rng(0)
CODES = GENERATOR.standard_normal((400, 4)) @ GENERATOR.standard_normal((4, 4)) * np.array([1.0, 5.0, 0.1, 2.0]) + 3
COVARIANCE = np.cov(CODES.T)


def test_the_total_correlation_is_the_entropy_that_independent_latents_would_add() -> None:
    separate = sum(multivariate_normal(cov=variance).entropy() for variance in COVARIANCE.diagonal())
    assert total_correlation(CODES) == pytest.approx(separate - multivariate_normal(cov=COVARIANCE).entropy(), rel=1e-9)


def test_the_wasserstein_correlation_is_the_distance_from_independent_latents() -> None:
    apart = np.diag(COVARIANCE.diagonal())
    root = sqrtm(COVARIANCE)
    distance = np.trace(COVARIANCE + apart - 2 * sqrtm(root @ apart @ root)).real
    assert gaussian_wasserstein_correlation(CODES) == pytest.approx(distance, rel=1e-9)
    share = gaussian_wasserstein_correlation(7 * CODES, normalise=True)
    assert share == pytest.approx(distance / np.trace(COVARIANCE), rel=1e-9)


def test_the_effective_rank_is_the_exponential_of_the_entropy_of_singular_values() -> None:
    values = np.linalg.svd(CODES - CODES.mean(0), compute_uv=False)
    assert effective_rank(CODES) == pytest.approx(math.exp(entropy(values)), rel=1e-9)


def test_dependent_independent_and_constant_latents() -> None:
    independent = np.array([[a, b] for a in (-1.0, 1.0) for b in (-2.0, 2.0)])
    assert total_correlation(independent) == pytest.approx(0, abs=1e-12)
    assert gaussian_wasserstein_correlation(independent) == pytest.approx(0, abs=1e-12)
    doubled = np.c_[CODES[:, 0], 2 * CODES[:, 0]]
    assert total_correlation(doubled) == math.inf
    # Of variances v and 4 v, perfectly correlated: 2 (5 v - sqrt(17) v).
    variance = CODES[:, 0].var(ddof=1)
    assert gaussian_wasserstein_correlation(doubled) == pytest.approx(2 * variance * (5 - math.sqrt(17)), rel=1e-9)
    constant = np.zeros((5, 2))
    found = total_correlation(constant), gaussian_wasserstein_correlation(constant, normalise=True)
    assert (*found, effective_rank(constant)) == (0, 0, 0)
    assert effective_rank(torch.from_numpy(CODES)) == effective_rank(CODES)
    with pytest.raises(DataError, match="codes must hold at least 2 items"):
        total_correlation(CODES[:1])
