"""Procrustes, SVCCA and RSA against other ways to compute them, and their invariances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import orthogonal_procrustes, sqrtm
from scipy.spatial.distance import pdist
from scipy.stats import pearsonr, spearmanr

from vaescope.errors import ConfigurationError, DataError, UnknownNameError
from vaescope.similarity import procrustes, pwcca, rsa, svcca

GENERATOR = np.random.default_rng(0)
SHARED = GENERATOR.normal(size=(50, 4))
A = SHARED @ GENERATOR.normal(size=(4, 9)) + GENERATOR.normal(size=(50, 9)) + 3
B = SHARED @ GENERATOR.normal(size=(4, 6)) + GENERATOR.normal(size=(50, 6)) - 5
WIDE = SHARED @ GENERATOR.normal(size=(4, 130)) + GENERATOR.normal(size=(50, 130))


def reference_procrustes(a: np.ndarray, b: np.ndarray) -> float:
    """The distance left by the best rotation, found and applied; the narrower one padded with zeros (eq. 7.2)."""
    width = max(a.shape[1], b.shape[1])
    sides = []
    for side in (a, b):
        centred = side - side.mean(0)
        sides.append(np.pad(centred / np.linalg.norm(centred), ((0, 0), (0, width - side.shape[1]))))
    rotation, _ = orthogonal_procrustes(sides[1], sides[0])
    return float(1 - np.linalg.norm(sides[0] - sides[1] @ rotation) ** 2 / 2)


def reference_svcca(a: np.ndarray, b: np.ndarray, variance: float) -> float:
    """Principal components from the covariance, canonical correlations from QR decompositions."""
    bases = []
    for side in (a, b):
        centred = side - side.mean(0)
        values, vectors = np.linalg.eigh(centred.T @ centred)
        values, vectors = values[::-1], vectors[:, ::-1]
        count = 1
        while values[:count].sum() < variance * values.sum():
            count += 1
        bases.append(np.linalg.qr(centred @ vectors[:, :count])[0])
    return float(np.linalg.svd(bases[0].T @ bases[1], compute_uv=False).mean())


def reference_pwcca(a: np.ndarray, b: np.ndarray) -> float:
    """Canonical directions from whitened covariances, weighted as in Morcos et al. (2018), section 2."""
    x, y = a - a.mean(0), b - b.mean(0)
    whiten_x, whiten_y = (np.linalg.inv(sqrtm(side.T @ side).real) for side in (x, y))
    directions, correlations, _ = np.linalg.svd(whiten_x @ x.T @ y @ whiten_y, full_matrices=False)
    variates = x @ whiten_x @ directions
    weights = [sum(abs(float(variate @ feature)) for feature in x.T) for variate in variates.T]
    return float(np.average(correlations, weights=weights))


@pytest.mark.parametrize(("a", "b"), [(A, B), (B, A), (A[:, :1], B), (B, A[:, :2])])
def test_pwcca_weights_cca_by_projections(a: np.ndarray, b: np.ndarray) -> None:
    assert pwcca(a, b) == pytest.approx(reference_pwcca(a, b), abs=1e-9)
    assert pwcca(a, a) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(("a", "b"), [(A, B), (B, A), (A, WIDE), (WIDE, B), (WIDE, WIDE**2), (A[:, :1], B)])
def test_procrustes_is_the_distance_after_the_best_rotation(a: np.ndarray, b: np.ndarray) -> None:
    assert procrustes(a, b) == pytest.approx(reference_procrustes(a, b), abs=1e-10)


@pytest.mark.parametrize("variance", [0.5, 0.9, 0.99])
def test_svcca_is_cca_of_the_leading_components(variance: float) -> None:
    assert svcca(A, B, variance=variance) == pytest.approx(reference_svcca(A, B, variance), abs=1e-10)
    assert svcca(WIDE, B, variance=variance) == pytest.approx(reference_svcca(WIDE, B, variance), abs=1e-10)


@pytest.mark.parametrize("distance", ["euclidean", "correlation"])
def test_rsa_correlates_the_distances_of_scipy(distance: str) -> None:
    left, right = pdist(A, distance), pdist(B, distance)
    assert rsa(A, B, distance=distance) == pytest.approx(spearmanr(left, right).statistic, abs=1e-10)
    pearson = pearsonr(left, right).statistic
    assert rsa(A, B, distance=distance, correlation="pearson") == pytest.approx(pearson, abs=1e-10)


def test_rsa_draws_rows_by_the_seed() -> None:
    kept = np.sort(np.random.default_rng(3).permutation(50)[:20])
    assert rsa(A, B, items=20, seed=3) == pytest.approx(rsa(A[kept], B[kept]), abs=1e-12)
    assert rsa(A, B, items=20, seed=4) != rsa(A, B, items=20, seed=3)
    assert rsa(A, B, items=50, seed=4) == rsa(A, B)


@given(seed=st.integers(0, 10**6), scale=st.floats(1e-3, 1e3), offset=st.floats(-100, 100))
@settings(max_examples=30, deadline=None)
def test_rotation_scaling_order_and_offset_change_nothing(seed: int, scale: float, offset: float) -> None:
    generator = np.random.default_rng(seed)
    rotation = np.linalg.qr(generator.normal(size=(9, 9)))[0]
    moved = (scale * A @ rotation + offset)[:, generator.permutation(9)]
    for measure in (procrustes, svcca, rsa):
        assert measure(moved, B) == pytest.approx(measure(A, B), abs=1e-8)
        assert measure(A, moved) == pytest.approx(1, abs=1e-8)
        assert measure(A, B) == pytest.approx(measure(B, A), abs=1e-10)


def test_svcca_is_unchanged_by_invertible_maps_and_procrustes_is_not() -> None:
    stretched = A @ np.diag(np.geomspace(1, 30, 9))
    assert svcca(A, stretched, variance=1.0) == pytest.approx(1, abs=1e-8)
    assert procrustes(A, stretched) < 0.9


@pytest.mark.parametrize("measure", [procrustes, svcca, rsa])
def test_wrong_input_is_named(measure: Any) -> None:
    broken = torch.from_numpy(A).clone()
    broken[1, 3] = torch.inf
    with pytest.raises(DataError, match="inf for item 1, feature 3"):
        measure(broken, B)
    with pytest.raises(DataError, match="b must vary"):
        measure(A, np.ones((50, 2)))
    with pytest.raises(DataError, match="same items"):
        measure(A, B[:-1])


def test_settings_out_of_range_are_named() -> None:
    with pytest.raises(ConfigurationError, match="variance"):
        svcca(A, B, variance=0)
    with pytest.raises(UnknownNameError, match="'kendall'"):
        rsa(A, B, correlation="kendall")
    with pytest.raises(UnknownNameError, match="distance"):
        rsa(A, B, distance="cosine")
    with pytest.raises(ConfigurationError, match="items"):
        rsa(A, B, items=2)
    with pytest.raises(DataError, match="3 items"):
        rsa(A[:2], B[:2])
    with pytest.raises(DataError, match="equally far apart"):
        rsa(np.eye(5), B[:5])
    with pytest.raises(DataError, match=r"b must differ.*item"):
        rsa(A, B[:, :1], distance="correlation")
