"""Total correlation and mutual information against closed forms, plain loops and scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mutual_info_score

from vaescope.errors import DataError
from vaescope.numerics import information

GENERATOR = np.random.default_rng(0)
MIXING = GENERATOR.normal(size=(5, 5))
ROWS = torch.from_numpy(GENERATOR.normal(size=(300, 5)) @ MIXING)


def a_covariance(seed: int, size: int) -> torch.Tensor:
    factor = torch.from_numpy(np.random.default_rng(seed).normal(size=(size, size + 3)))
    return factor @ factor.T


def histogram_codes(column: np.ndarray, bins: int) -> np.ndarray:
    """The bins that published code uses."""
    return np.digitize(column, np.histogram(column, bins)[1][:-1]) - 1


def reference_information(one: np.ndarray, two: np.ndarray) -> float:
    """Equation 6.9, one pair of bins at a time."""
    total, items = 0.0, len(one)
    for u in np.unique(one):
        for v in np.unique(two):
            both = int(((one == u) & (two == v)).sum())
            if both:
                total += both / items * math.log(items * both / ((one == u).sum() * (two == v).sum()))
    return total


@pytest.mark.parametrize("size", [2, 3, 10])
@pytest.mark.parametrize("rho", [-0.09, 0.0, 0.3, 0.999])
def test_equicorrelated_gaussians_have_the_closed_form(size: int, rho: float) -> None:
    covariance = torch.full((size, size), rho, dtype=torch.float64).fill_diagonal_(1)
    expected = -0.5 * ((size - 1) * math.log(1 - rho) + math.log(1 + (size - 1) * rho))
    assert information.total_correlation(covariance) == pytest.approx(expected, rel=1e-10, abs=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_total_correlation_is_equation_6_3_and_the_difference_of_entropies(seed: int) -> None:
    covariance = a_covariance(seed, 4).numpy()
    direct = 0.5 * (sum(math.log(covariance[j, j]) for j in range(4)) - math.log(np.linalg.det(covariance)))
    joint = scipy.stats.multivariate_normal(cov=covariance).entropy()
    apart = sum(scipy.stats.norm(scale=math.sqrt(covariance[j, j])).entropy() for j in range(4))
    found = information.total_correlation(torch.from_numpy(covariance))
    assert found == pytest.approx(direct, rel=1e-10)
    assert found == pytest.approx(float(apart - joint), rel=1e-10)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6))
def test_total_correlation_ignores_scale_and_order_and_is_not_negative(seed: int, size: int) -> None:
    covariance = a_covariance(seed, size)
    generator = np.random.default_rng(seed)
    scale = torch.from_numpy(np.exp(generator.uniform(-30, 30, size)))
    order = torch.from_numpy(generator.permutation(size))
    changed = (covariance * scale * scale[:, None])[order][:, order]
    found = information.total_correlation(covariance)
    assert found >= 0
    assert information.total_correlation(changed) == pytest.approx(found, rel=1e-8, abs=1e-10)


def test_total_correlation_of_dependent_latents_is_infinite() -> None:
    rows = torch.cat([ROWS, ROWS[:, :1]], 1)
    assert information.total_correlation(torch.cov(rows.T)) == math.inf
    assert information.total_correlation(torch.ones(2, 2, dtype=torch.float64)) == math.inf


@pytest.mark.parametrize("seed", range(20))
def test_rounding_neither_hides_nor_creates_a_linear_dependence(seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = torch.from_numpy(generator.normal(size=(5000, 6)))
    relation = rows @ torch.from_numpy(generator.normal(size=(6, 1)))
    noise = torch.from_numpy(generator.normal(size=(5000, 1)))
    assert information.total_correlation(torch.cov(torch.cat([rows, relation], 1).T)) == math.inf
    near = torch.cat([rows, relation + 1e-5 * noise], 1)
    assert 8 < information.total_correlation(torch.cov(near.T)) < 16


def test_a_constant_latent_shares_no_information() -> None:
    covariance = a_covariance(0, 3)
    wider = torch.zeros(4, 4, dtype=torch.float64)
    wider[:3, :3] = covariance
    assert information.total_correlation(wider) == pytest.approx(information.total_correlation(covariance), rel=1e-12)
    assert information.total_correlation(torch.zeros(3, 3, dtype=torch.float64)) == 0
    assert information.total_correlation(torch.ones(1, 1, dtype=torch.float64)) == 0


def test_a_matrix_that_is_not_a_covariance_is_refused() -> None:
    matrix = torch.tensor([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]], dtype=torch.float64)
    with pytest.raises(DataError, match=r"negative eigenvalue, got -0\.8"):
        information.total_correlation(matrix)


@pytest.mark.parametrize("bins", [2, 7, 20])
def test_bins_equal_numpy(bins: int) -> None:
    codes = information.discretise(ROWS, bins)
    for latent in range(5):
        assert np.array_equal(codes[:, latent], histogram_codes(ROWS[:, latent].numpy(), bins))


def test_a_constant_column_has_one_bin_and_the_largest_value_is_in_the_last() -> None:
    column = torch.tensor([[0.0, 3.0], [0.5, 3.0], [1.0, 3.0]])
    codes = information.discretise(column, 4)
    assert codes[:, 0].tolist() == [0, 2, 3]
    assert len(set(codes[:, 1].tolist())) == 1


@pytest.mark.parametrize("bins", [3, 20])
def test_mutual_information_equals_equation_6_9_and_scikit_learn(bins: int) -> None:
    codes = information.discretise(ROWS, bins)
    matrix = information.mutual_information_matrix(codes, bins)
    columns = codes.numpy().T
    for i in range(5):
        for j in range(5):
            assert float(matrix[i, j]) == pytest.approx(reference_information(columns[i], columns[j]), abs=1e-12)
            assert float(matrix[i, j]) == pytest.approx(mutual_info_score(columns[i], columns[j]), abs=1e-12)


def test_entropies_are_on_the_diagonal() -> None:
    codes = information.discretise(ROWS)
    counts = torch.stack([torch.bincount(column, minlength=20) for column in codes.T.long()])
    entropies = information.entropy(counts)
    torch.testing.assert_close(information.mutual_information_matrix(codes).diagonal(), entropies)
    for row, entropy in zip(counts.numpy(), entropies, strict=True):
        assert float(entropy) == pytest.approx(scipy.stats.entropy(row))


@pytest.mark.parametrize("chunk", [1, 7, 299, 300, 1000])
def test_the_chunk_changes_no_bit_of_mutual_information(chunk: int) -> None:
    codes = information.discretise(ROWS)
    whole = information.mutual_information_matrix(codes)
    assert torch.equal(information.mutual_information_matrix(codes, chunk=chunk), whole)
    assert torch.equal(whole, whole.T)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_mutual_information_ignores_the_names_of_bins_and_is_below_both_entropies(seed: int) -> None:
    generator = np.random.default_rng(seed)
    codes = torch.from_numpy(generator.integers(0, 4, (40, 3)))
    matrix = information.mutual_information_matrix(codes, 4)
    renamed = torch.from_numpy(generator.permutation(4))[codes]
    torch.testing.assert_close(information.mutual_information_matrix(renamed, 4), matrix, rtol=1e-12, atol=1e-14)
    assert bool((matrix >= 0).all())
    assert bool((matrix <= torch.minimum(matrix.diagonal(), matrix.diagonal()[:, None]) + 1e-12).all())


def test_independent_counts_have_exactly_zero_information() -> None:
    codes = torch.cartesian_prod(torch.arange(20), torch.arange(20), torch.arange(3))
    matrix = information.mutual_information_matrix(codes, 20)
    assert not (matrix - torch.diag(matrix.diagonal())).any()


def test_the_average_is_over_pairs_of_different_latents() -> None:
    matrix = torch.tensor([[9.0, 1.0, 2.0], [1.0, 9.0, 3.0], [2.0, 3.0, 9.0]], dtype=torch.float64)
    assert information.averaged_mutual_information(matrix) == 2
    with pytest.raises(DataError, match="2 latents, got 1"):
        information.averaged_mutual_information(matrix[:1, :1])
