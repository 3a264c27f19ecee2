"""Matrix-based Rényi entropy against plain loops, its bounds and its limits."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vaescope.errors import ConfigurationError
from vaescope.numerics import renyi

QUICKLY = settings(deadline=None, max_examples=50)
SEEDS = st.integers(0, 10_000)
SIZES = st.integers(2, 12)
COLUMNS = st.integers(1, 6)
SCALES = st.floats(-6, 6).map(lambda power: 10**power)
ALPHAS = st.sampled_from([0.3, 0.9, 1.0, 1.01, 1.5, 2.0, 3.0])


def some_rows(seed: int, items: int, columns: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.normal(size=(items, columns)) * generator.choice([0.01, 1.0, 3.0], size=(items, 1))


def reference_gram(rows: np.ndarray) -> np.ndarray:
    """Equation D.5 and the normalisation, one pair of items at a time."""
    items, columns = rows.shape
    bandwidth = np.std(rows) * items ** (-1 / (4 + columns))
    kernel = np.empty((items, items))
    for i in range(items):
        for j in range(items):
            distance = sum((rows[i, c] - rows[j, c]) ** 2 for c in range(columns))
            kernel[i, j] = math.exp(-distance / (2 * bandwidth**2))
    return np.array(
        [[kernel[i, j] / (items * math.sqrt(kernel[i, i] * kernel[j, j])) for j in range(items)] for i in range(items)]
    )


def reference_entropy(matrix: np.ndarray, alpha: float) -> float:
    """Equation D.2."""
    total = sum(max(value, 0.0) ** alpha for value in np.linalg.eigvalsh(matrix))
    return math.log2(total) / (1 - alpha)


def a_gram(seed: int, items: int, columns: int) -> torch.Tensor:
    return renyi.gram(torch.from_numpy(some_rows(seed, items, columns)))


@QUICKLY
@given(SEEDS, SIZES, COLUMNS, st.sampled_from([0.9, 1.01, 2.0, 3.0]))
def test_gram_matrix_entropies_and_information_equal_plain_loops(
    seed: int, items: int, columns: int, alpha: float
) -> None:
    rows = [some_rows(seed, items, columns), some_rows(seed + 1, items, columns + 1)]
    grams = [renyi.gram(torch.from_numpy(one)) for one in rows]
    references = [reference_gram(one) for one in rows]
    for found, expected in zip(grams, references, strict=True):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-8, atol=1e-13)
    alone = [reference_entropy(one, alpha) for one in references]
    product = references[0] * references[1]
    joint = reference_entropy(product / np.trace(product), alpha)
    assert renyi.entropy(grams[0], alpha) == pytest.approx(alone[0], abs=1e-7)
    assert renyi.joint_entropy(*grams, alpha) == pytest.approx(joint, abs=1e-7)
    assert renyi.mutual_information(*grams, alpha) == pytest.approx(sum(alone) - joint, abs=1e-7)


@QUICKLY
@given(SEEDS, SIZES, COLUMNS, ALPHAS)
def test_the_entropy_lies_between_0_and_the_logarithm_of_the_items(
    seed: int, items: int, columns: int, alpha: float
) -> None:
    assert 0 <= renyi.entropy(a_gram(seed, items, columns), alpha) <= math.log2(items)


@QUICKLY
@given(SEEDS, SIZES, COLUMNS, ALPHAS)
def test_the_joint_entropy_is_no_less_than_that_of_either_part(
    seed: int, items: int, columns: int, alpha: float
) -> None:
    one, two = a_gram(seed, items, columns), a_gram(seed + 1, items, 2)
    joint = renyi.joint_entropy(one, two, alpha)
    assert joint >= max(renyi.entropy(one, alpha), renyi.entropy(two, alpha)) - 1e-9
    assert renyi.mutual_information(one, two, alpha) <= min(renyi.entropy(one, alpha), renyi.entropy(two, alpha)) + 1e-9


@QUICKLY
@given(SEEDS, SIZES, ALPHAS)
def test_joint_entropy_and_information_do_not_depend_on_the_order(seed: int, items: int, alpha: float) -> None:
    one, two = a_gram(seed, items, 3), a_gram(seed + 1, items, 2)
    torch.testing.assert_close(one, one.T, rtol=0, atol=1e-14)
    assert renyi.joint_entropy(one, two, alpha) == pytest.approx(renyi.joint_entropy(two, one, alpha), abs=1e-12)
    assert renyi.mutual_information(one, two, alpha) == pytest.approx(
        renyi.mutual_information(two, one, alpha), abs=1e-9
    )


@QUICKLY
@given(SEEDS, SIZES, COLUMNS)
def test_at_alpha_2_the_norm_equals_the_result_of_eigenvalues(seed: int, items: int, columns: int) -> None:
    matrix = a_gram(seed, items, columns)
    values = torch.linalg.eigvalsh(matrix)
    assert renyi.entropy(matrix) == pytest.approx(-math.log2(float(values.square().sum())), abs=1e-10)


@QUICKLY
@given(SEEDS, SIZES)
def test_the_entropy_falls_with_alpha_and_1_is_the_limit(seed: int, items: int) -> None:
    matrix = a_gram(seed, items, 3)
    found = [renyi.entropy(matrix, alpha) for alpha in (0.5, 1 - 1e-6, 1.0, 1 + 1e-6, 2.0, 5.0)]
    assert all(later <= earlier + 1e-6 for earlier, later in itertools.pairwise(found))
    assert found[2] == pytest.approx(found[1], abs=1e-4)
    assert found[2] == pytest.approx(found[3], abs=1e-4)


@QUICKLY
@given(SIZES, COLUMNS, ALPHAS, SCALES, st.booleans())
def test_equal_items_have_no_entropy(items: int, columns: int, alpha: float, scale: float, flat: bool) -> None:
    """Rows that are all equal, be their entries equal (a deviation of 0) or not."""
    row = torch.full((columns,), scale) if flat else scale * torch.arange(1, columns + 1, dtype=torch.float32)
    matrix = renyi.gram(row.expand(items, columns))
    assert torch.equal(matrix, torch.full((items, items), 1 / items, dtype=torch.float64))
    assert renyi.entropy(matrix, alpha) == pytest.approx(0, abs=1e-9)


@QUICKLY
@given(SIZES, ALPHAS)
def test_distant_items_have_maximal_entropy(items: int, alpha: float) -> None:
    kernel = renyi.rbf(torch.arange(items, dtype=torch.float64)[:, None] * 100, 1.0)
    assert renyi.entropy(renyi.normalised(kernel), alpha) == pytest.approx(math.log2(items), abs=1e-12)


@QUICKLY
@given(SEEDS, SCALES)
def test_scale_and_offset_change_nothing(seed: int, scale: float) -> None:
    """The deviation is that of all entries, so the offset must be one for all columns."""
    rows = torch.from_numpy(some_rows(seed, 8, 3))
    moved = renyi.gram(rows * scale + 1000 * scale)
    torch.testing.assert_close(moved, renyi.gram(rows), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_huge_and_tiny_numbers_do_not_overflow(scale: float) -> None:
    rows = torch.from_numpy(some_rows(3, 8, 3))
    torch.testing.assert_close(renyi.gram(rows * scale), renyi.gram(rows))


def test_the_bandwidth_uses_the_deviation_of_all_entries() -> None:
    rows = torch.tensor([[0.0, 10.0], [0.0, 10.0], [0.0, 10.0]])
    assert renyi.silverman(rows) == pytest.approx(5 * 3 ** (-1 / 6))


def test_a_bandwidth_of_0_separates_equal_items_from_others() -> None:
    kernel = renyi.rbf(torch.tensor([[1.0], [2.0], [1.0]]), 0.0)
    assert kernel.tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]


def test_normalised_kernels_have_trace_1() -> None:
    factor = torch.from_numpy(some_rows(0, 5, 5))
    kernel = factor @ factor.T
    found = renyi.normalised(kernel)
    assert float(found.trace()) == pytest.approx(1)
    assert float(found[1, 3]) == pytest.approx(float(kernel[1, 3] / (5 * (kernel[1, 1] * kernel[3, 3]).sqrt())))


def test_single_precision_items_are_computed_in_double() -> None:
    rows = torch.from_numpy(some_rows(0, 20, 4)).to(torch.float32)
    assert renyi.gram(rows).dtype == torch.float64
    assert renyi.entropy(renyi.gram(rows)) == renyi.entropy(renyi.gram(rows.to(torch.float64)))


def test_information_can_be_negative() -> None:
    one, two = torch.tensor([[0.0], [0.0], [1.0]]), torch.tensor([[0.0], [1.0], [0.0]])
    grams = [renyi.normalised(renyi.rbf(rows, 0.1)) for rows in (one, two)]
    # Shares of equal pairs: 5/9 in each, 3/9 in both, which is more than 25/81.
    assert renyi.mutual_information(*grams) == pytest.approx(math.log2((3 / 9) / (25 / 81)))
    apart = torch.tensor([[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]]), torch.tensor([[0.0], [1], [2], [0], [1], [2]])
    crossed = [renyi.normalised(renyi.rbf(rows, 0.5)) for rows in apart]
    assert renyi.mutual_information(*crossed) < 0


@pytest.mark.parametrize("alpha", [0.0, -1.0, math.nan, math.inf])
def test_an_alpha_that_is_not_positive_is_refused(alpha: float) -> None:
    with pytest.raises(ConfigurationError, match="alpha must be a finite number above 0"):
        renyi.entropy(torch.eye(2) / 2, alpha)
