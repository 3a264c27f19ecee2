"""Covariance, correlation and effective rank against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vaescope.numerics import linalg

ROWS = torch.from_numpy(np.random.default_rng(0).normal(size=(57, 4)) @ np.diag([3.0, 1.0, 0.1, 2.0]) + 5.0)


def reference_rank(matrix: np.ndarray) -> float:
    """The definition, one singular value at a time."""
    values = scipy.linalg.svdvals(matrix)
    total = 0.0
    for value in values:
        share = value / values.sum()
        total -= share * math.log(share) if share > 0 else 0.0
    return math.exp(total)


def test_the_effective_rank_of_an_identity_is_its_size() -> None:
    for size in (1, 2, 7):
        assert linalg.matrix_effective_rank(torch.eye(size)) == pytest.approx(size, rel=1e-12)


def test_the_effective_rank_of_a_matrix_of_rank_one_is_one() -> None:
    outer = torch.outer(torch.arange(1.0, 30.0), torch.tensor([1.0, -2.0, 0.5]))
    assert linalg.matrix_effective_rank(outer.double()) == pytest.approx(1, abs=1e-12)
    assert linalg.effective_rank(outer) == pytest.approx(1, abs=1e-6)
    assert linalg.effective_rank(outer.double()) == pytest.approx(1, abs=1e-12)


def test_the_effective_rank_of_a_zero_matrix_is_zero() -> None:
    assert linalg.matrix_effective_rank(torch.zeros(3, 2)) == 0
    assert linalg.effective_rank(torch.full((10, 3), 0.1, dtype=torch.float64)) == 0


def test_the_effective_rank_is_of_the_centred_codes_or_of_the_covariance() -> None:
    centred = (ROWS - ROWS.mean(0)).numpy()
    assert linalg.effective_rank(ROWS) == pytest.approx(reference_rank(centred), rel=1e-12)
    assert linalg.effective_rank(ROWS, "covariance") == pytest.approx(reference_rank(np.cov(ROWS.T)), rel=1e-12)
    assert linalg.effective_rank(ROWS) > linalg.effective_rank(ROWS, "covariance") + 0.1


def test_small_singular_values_are_not_rounded_away() -> None:
    small = ROWS * torch.tensor([1.0, 1e-10, 1e-11, 1e-10], dtype=torch.float64)
    reference = reference_rank((small - small.mean(0)).numpy())
    assert linalg.effective_rank(small) - 1 == pytest.approx(reference - 1, rel=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.floats(1e-3, 1e3), st.floats(-1e3, 1e3))
def test_the_effective_rank_ignores_rotation_scale_shift_and_order(seed: int, scale: float, shift: float) -> None:
    generator = np.random.default_rng(seed)
    rotation = np.linalg.qr(generator.normal(size=(4, 4)))[0]
    changed = torch.from_numpy(generator.permutation(ROWS.numpy()) @ rotation * scale + shift)
    assert linalg.effective_rank(changed) == pytest.approx(linalg.effective_rank(ROWS), rel=1e-7)
    assert 1 <= linalg.effective_rank(changed) <= 4 + 1e-12


@pytest.mark.parametrize("chunk", [1, 2, 10, 56, 57, 1000])
def test_the_chunk_changes_nothing(chunk: int) -> None:
    torch.testing.assert_close(linalg.covariance(ROWS, chunk), linalg.covariance(ROWS), rtol=1e-12, atol=1e-13)
    assert linalg.effective_rank(ROWS, chunk=chunk) == pytest.approx(linalg.effective_rank(ROWS), rel=1e-12)


def test_the_factor_of_a_subset_of_columns_has_its_singular_values() -> None:
    factor, centred = linalg.centred_factor(ROWS, 10), (ROWS - ROWS.mean(0)).numpy()
    for subset in ([0], [1, 3], [0, 1, 2, 3]):
        assert torch.linalg.svdvals(factor[:, subset]).numpy() == pytest.approx(
            scipy.linalg.svdvals(centred[:, subset])
        )


def test_the_covariance_survives_a_large_offset() -> None:
    shifted = linalg.covariance(ROWS + 2.0**30, 7)
    assert shifted.numpy() == pytest.approx(np.cov(ROWS.T), rel=1e-5, abs=1e-6)
    assert linalg.covariance(ROWS).numpy() == pytest.approx(np.cov(ROWS.T), rel=1e-12)


def test_correlations_equal_numpy() -> None:
    found = linalg.correlation(linalg.covariance(ROWS))
    assert found.matrix.numpy() == pytest.approx(np.corrcoef(ROWS.T), rel=1e-12)
    assert found.constant == ()
    assert torch.equal(found.matrix.diagonal(), torch.ones(4, dtype=torch.float64))


def test_a_constant_column_has_no_correlation_and_is_named() -> None:
    rows = ROWS.clone()
    rows[:, 2] = 0.1
    found = linalg.correlation(linalg.covariance(rows, 10))
    assert found.constant == (2,)
    assert not found.matrix[2].any()
    assert not found.matrix[:, 2].any()
    kept = [0, 1, 3]
    assert found.matrix[kept][:, kept].numpy() == pytest.approx(np.corrcoef(ROWS[:, kept].T))


@pytest.mark.parametrize("scale", [1e-140, 1e140])
def test_correlations_of_tiny_and_huge_codes_are_finite(scale: float) -> None:
    found = linalg.correlation(linalg.covariance(ROWS * scale)).matrix
    assert found.numpy() == pytest.approx(np.corrcoef(ROWS.T), rel=1e-9)


def test_exactly_the_linearly_dependent_columns_are_found() -> None:
    rows = torch.cat([ROWS, (ROWS[:, 1] - 2 * ROWS[:, 3])[:, None]], 1)
    assert linalg.dependent_columns(linalg.correlation(linalg.covariance(rows)).matrix) == (1, 3, 4)
    assert linalg.dependent_columns(linalg.correlation(linalg.covariance(ROWS)).matrix) == ()


@pytest.mark.parametrize("allowed", [True, False])
def test_settings_of_products_hold_inside_their_block_only(allowed: bool) -> None:
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn

    def current() -> tuple[bool, ...]:
        return matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic

    before = current()
    with linalg.tf32_products(allowed), linalg.repeatable_convolutions():
        assert current() == (allowed, allowed, False, True)
    assert current() == before
    with pytest.raises(KeyError), linalg.tf32_products(allowed), linalg.repeatable_convolutions():
        raise KeyError
    assert current() == before
