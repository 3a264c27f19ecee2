"""Linear CKA against its definition, its invariances, and its streamed and minibatch forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vaescope.errors import ConfigurationError, DataError
from vaescope.similarity import MinibatchCKA, StreamedCKA, hsic, linear_cka, rbf_cka

GENERATOR = np.random.default_rng(0)
SHARED = GENERATOR.normal(size=(60, 4))
A = SHARED @ GENERATOR.normal(size=(4, 9)) + GENERATOR.normal(size=(60, 9)) + 3
B = SHARED @ GENERATOR.normal(size=(4, 7)) + GENERATOR.normal(size=(60, 7)) - 5
WIDE = SHARED @ GENERATOR.normal(size=(4, 150)) + GENERATOR.normal(size=(60, 150))


def reference_hsic(a: np.ndarray, b: np.ndarray) -> float:
    """tr(K H L H) / (n - 1)^2, with centring matrices."""
    n = len(a)
    centring = np.eye(n) - np.ones((n, n)) / n
    return float(np.trace(a @ a.T @ centring @ b @ b.T @ centring)) / (n - 1) ** 2


def reference_unbiased_hsic(a: np.ndarray, b: np.ndarray) -> float:
    """HSIC_1 of Song et al. (2012), as sums over distinct items."""
    n = len(a)
    k, m = a @ a.T, b @ b.T
    for i in range(n):
        k[i, i] = m[i, i] = 0.0
    pairs = sum(k[i, j] * m[i, j] for i in range(n) for j in range(n))
    totals = k.sum() * m.sum() / ((n - 1) * (n - 2))
    chains = sum(k[i].sum() * m[i].sum() for i in range(n))
    return float(pairs + totals - 2 / (n - 2) * chains) / (n * (n - 3))


def reference_cka(a: np.ndarray, b: np.ndarray, criterion: Any = reference_hsic) -> float:
    return float(criterion(a, b) / math.sqrt(criterion(a, a) * criterion(b, b)))


@pytest.mark.parametrize(("a", "b"), [(A, B), (A, WIDE), (WIDE, B), (WIDE, WIDE[:, ::2] ** 2), (A[:, :1], B)])
def test_cka_and_hsic_are_those_of_the_definition(a: np.ndarray, b: np.ndarray) -> None:
    assert linear_cka(a, b) == pytest.approx(reference_cka(a, b), abs=1e-12)
    assert linear_cka(a, b, unbiased=True) == pytest.approx(reference_cka(a, b, reference_unbiased_hsic), abs=1e-10)
    assert hsic(a, b) == pytest.approx(reference_hsic(a, b), rel=1e-10)
    assert hsic(a, b, unbiased=True) == pytest.approx(reference_unbiased_hsic(a, b), rel=1e-8)


@pytest.mark.parametrize("unbiased", [False, True])
def test_features_and_kernels_give_the_same(unbiased: bool) -> None:
    wide = np.hstack([A, np.zeros((60, 500))])
    assert linear_cka(wide, B, unbiased=unbiased) == pytest.approx(linear_cka(A, B, unbiased=unbiased), abs=1e-12)


@given(seed=st.integers(0, 10**6), scale=st.floats(1e-3, 1e3), offset=st.floats(-100, 100))
@settings(max_examples=30, deadline=None)
def test_rotation_scaling_order_and_offset_change_nothing(seed: int, scale: float, offset: float) -> None:
    generator = np.random.default_rng(seed)
    rotation = np.linalg.qr(generator.normal(size=(9, 9)))[0]
    moved = (scale * A @ rotation + offset)[:, generator.permutation(9)]
    for unbiased in (False, True):
        value = linear_cka(A, B, unbiased=unbiased)
        assert linear_cka(moved, B, unbiased=unbiased) == pytest.approx(value, abs=1e-8)
        assert linear_cka(B, moved, unbiased=unbiased) == pytest.approx(value, abs=1e-8)
        assert linear_cka(A, moved, unbiased=unbiased) == pytest.approx(1, abs=1e-8)


def test_an_invertible_map_changes_cka() -> None:
    assert linear_cka(A, A * np.geomspace(1, 100, 9)) < 0.9


def test_unrelated_representations_of_few_items_mislead_only_the_biased_cka() -> None:
    pairs = [(GENERATOR.normal(size=(50, 200)), GENERATOR.normal(size=(50, 200))) for _ in range(20)]
    assert np.mean([linear_cka(a, b) for a, b in pairs]) > 0.7
    found = [linear_cka(a, b, unbiased=True) for a, b in pairs]
    # The standard deviation over 20 pairs bounds the distance of their mean from 0.
    assert abs(np.mean(found)) < 4 * np.std(found) / math.sqrt(20)
    assert np.std(found) < 0.1


def test_a_correlation_squared_is_the_cka_of_one_feature() -> None:
    assert linear_cka(A[:, :1], B[:, :1]) == pytest.approx(np.corrcoef(A[:, 0], B[:, 0])[0, 1] ** 2, abs=1e-12)


@pytest.mark.parametrize(
    "kind",
    [torch.from_numpy, lambda a: torch.from_numpy(a).requires_grad_(), np.asfortranarray, lambda a: a[::-1][::-1]],
)
def test_array_types_do_not_matter(kind: Any) -> None:
    assert linear_cka(kind(A), kind(B)) == pytest.approx(linear_cka(A, B), abs=1e-12)


@pytest.mark.parametrize("factor", [1e-120, 1e120])
def test_numbers_of_any_size_neither_overflow_nor_vanish(factor: float) -> None:
    assert linear_cka(factor * A, B / factor) == pytest.approx(linear_cka(A, B), abs=1e-12)


def test_a_large_offset_loses_few_digits() -> None:
    assert linear_cka(A + 1e8, B) == pytest.approx(linear_cka(A, B), abs=1e-6)


@pytest.mark.parametrize("chunk", [2, 7, 59, 60])
def test_streamed_chunks_give_the_cka_of_all_items(chunk: int) -> None:
    parts = [(A[start : start + chunk], B[start : start + chunk]) for start in range(0, 60, chunk) if start + 1 < 60]
    seen = sum(len(part) for part, _ in parts)
    assert StreamedCKA.over(parts).value == pytest.approx(linear_cka(A[:seen], B[:seen]), abs=1e-12)


def test_minibatches_average_the_unbiased_criterion() -> None:
    parts = [(A[start : start + 15], B[start : start + 15]) for start in range(0, 60, 15)]
    sums = [
        sum(reference_unbiased_hsic(*(side[place] for place in places)) for side in parts)
        for places in ((0, 1), (0, 0), (1, 1))
    ]
    assert MinibatchCKA.over(parts).value == pytest.approx(sums[0] / math.sqrt(sums[1] * sums[2]), abs=1e-10)
    halves = MinibatchCKA.over(parts[:2]).merge(MinibatchCKA.over(parts[2:]))
    assert halves.batches == 4
    assert halves.value == pytest.approx(MinibatchCKA.over(parts).value, abs=1e-12)


def test_one_batch_of_all_items_is_the_unbiased_cka() -> None:
    assert MinibatchCKA().add(A, WIDE).value == pytest.approx(linear_cka(A, WIDE, unbiased=True), abs=1e-10)


def test_minibatches_approximate_the_cka_of_all_items() -> None:
    shared = GENERATOR.normal(size=(4000, 3))
    a, b = (shared @ GENERATOR.normal(size=(3, 8)) + GENERATOR.normal(size=(4000, 8)) for _ in range(2))
    parts = [(a[start : start + 100], b[start : start + 100]) for start in range(0, 4000, 100)]
    assert MinibatchCKA.over(parts).value == pytest.approx(linear_cka(a, b, unbiased=True), abs=0.02)


@pytest.mark.parametrize("measure", [linear_cka, lambda a, b: StreamedCKA().add(a, b).value])
def test_a_constant_representation_is_named(measure: Any) -> None:
    with pytest.raises(DataError, match="b must vary"):
        measure(A, np.full((60, 3), 0.1))
    with pytest.raises(DataError, match="a must vary"):
        measure(np.full((60, 3), 0.1), B)


def test_wrong_input_is_named() -> None:
    broken = A.copy()
    broken[4, 2] = np.nan
    for call in (linear_cka, hsic, StreamedCKA().add, MinibatchCKA().add):
        with pytest.raises(DataError, match="nan for item 4, feature 2"):
            call(B, broken)
        with pytest.raises(DataError, match="a has 60 and b has 59"):
            call(A, B[1:])
        with pytest.raises(DataError, match="a must be a table"):
            call(A[:, 0], B)
        with pytest.raises(DataError, match="real numbers"):
            call("a", B)
    with pytest.raises(DataError, match="at least 2 items"):
        linear_cka(A[:1], B[:1])
    with pytest.raises(DataError, match="at least 4 items"):
        linear_cka(A[:3], B[:3], unbiased=True)
    with pytest.raises(DataError, match="add a chunk"):
        _ = StreamedCKA().value
    with pytest.raises(DataError, match="add a batch"):
        _ = MinibatchCKA().value
    with pytest.raises(DataError, match="9 of a and 3 of b after 9 and 7"):
        StreamedCKA().add(A, B).add(A, B[:, :3])


def test_too_few_items_for_an_unbiased_cka_are_named() -> None:
    lone = np.zeros((6, 1))
    lone[0] = 1.0
    with pytest.raises(DataError, match="positive HSIC of a"):
        linear_cka(lone, B[:6], unbiased=True)


def reference_gaussian_kernel(a: np.ndarray, bandwidth: float) -> np.ndarray:
    squares = ((a[:, None] - a[None]) ** 2).sum(2)
    return np.asarray(np.exp(-squares / (2 * bandwidth**2 * np.median(squares))))


@pytest.mark.parametrize("bandwidth", [0.2, 1.0])
@pytest.mark.parametrize(("a", "b"), [(A, B), (A, WIDE), (A[:, :1], B)])
def test_rbf_cka_uses_gaussian_kernels_of_the_median_distance(a: np.ndarray, b: np.ndarray, bandwidth: float) -> None:
    n = len(a)
    centring = np.eye(n) - np.ones((n, n)) / n
    k, m = (centring @ reference_gaussian_kernel(side, bandwidth) @ centring for side in (a, b))
    expected = np.trace(k @ m) / math.sqrt(np.trace(k @ k) * np.trace(m @ m))
    assert rbf_cka(a, b, bandwidth=bandwidth) == pytest.approx(expected, abs=1e-12)


def test_rbf_cka_is_invariant_to_rotation_and_scale_and_approaches_linear_cka() -> None:
    turned = 3 * A @ np.linalg.qr(GENERATOR.normal(size=(9, 9)))[0] + 1
    assert rbf_cka(A, turned) == pytest.approx(1, abs=1e-12)
    assert rbf_cka(A, B, bandwidth=1e3) == pytest.approx(linear_cka(A, B), abs=1e-5)
    with pytest.raises(ConfigurationError, match="bandwidth"):
        rbf_cka(A, B, bandwidth=0)
    with pytest.raises(DataError, match=r"b must have items that differ"):
        rbf_cka(A, np.eye(60)[:, :1])
