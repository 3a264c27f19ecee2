"""Moments merged over chunks equal the moments of all rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from torch import Tensor

from vaescope.numerics.moments import RunningMoments


@st.composite
def chunked(draw: st.DrawFn) -> tuple[np.ndarray, tuple[Tensor, ...]]:
    """Rows, and the same rows cut anywhere, also twice at one place, so that some chunks are empty."""
    shape = draw(st.tuples(st.integers(2, 30), st.integers(1, 4)))
    rows = draw(arrays.arrays(np.float64, shape, elements=st.floats(-10, 10)))
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=6)))
    return rows, torch.tensor_split(torch.from_numpy(rows), cuts)


@settings(max_examples=100, deadline=None)
@given(chunked(), st.integers(0, 1))
def test_chunks_of_any_size_give_the_moments_of_numpy(
    data: tuple[np.ndarray, tuple[Tensor, ...]], correction: int
) -> None:
    rows, chunks = data
    moments = RunningMoments.over(chunks)
    assert moments.count == len(rows)
    np.testing.assert_allclose(moments.mean, rows.mean(0), rtol=0, atol=1e-10)
    covariance = np.atleast_2d(np.cov(rows, rowvar=False, ddof=correction))
    np.testing.assert_allclose(moments.covariance(correction), covariance, rtol=0, atol=1e-10)


def some_rows(items: int = 50, columns: int = 3) -> Tensor:
    return torch.randn(items, columns, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_merging_with_no_rows_changes_nothing() -> None:
    some, none = RunningMoments.of(some_rows()), RunningMoments.of(torch.zeros(0, 3))
    for merged in (some.merge(none), none.merge(some)):
        assert merged.count == some.count
        assert torch.equal(merged.mean, some.mean)
        assert torch.equal(merged.scatter, some.scatter)
    assert none.merge(none).count == 0


def test_merging_is_symmetric() -> None:
    one, other = RunningMoments.of(some_rows()), RunningMoments.of(some_rows(7) + 3)
    forth, back = one.merge(other), other.merge(one)
    torch.testing.assert_close(forth.mean, back.mean)
    torch.testing.assert_close(forth.scatter, back.scatter)


def test_a_huge_offset_does_not_change_the_variance() -> None:
    rows = some_rows(1000)
    moments = RunningMoments.over((rows + 1e8).split(64))
    # Adding 1e8 itself rounds the rows to about 1e-8, hence the tolerance.
    torch.testing.assert_close(moments.covariance(), torch.cov(rows.T), rtol=1e-6, atol=1e-6)


def test_single_precision_rows_are_summed_in_double() -> None:
    rows = (some_rows(1000) + 1000).to(torch.float32)
    moments = RunningMoments.over(rows.split(100))
    assert moments.mean.dtype == moments.scatter.dtype == torch.float64
    torch.testing.assert_close(moments.covariance(), torch.cov(rows.double().T), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(moments.mean, rows.double().mean(0), rtol=1e-12, atol=0)


@pytest.mark.parametrize(("rows", "correction"), [(0, 0), (0, 1), (1, 1)])
def test_too_few_rows_are_refused(rows: int, correction: int) -> None:
    with pytest.raises(ValueError, match=f"more than {correction} rows, got {rows}"):
        RunningMoments.of(some_rows(rows)).covariance(correction)


def test_no_chunks_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one chunk, got none"):
        RunningMoments.over([])
