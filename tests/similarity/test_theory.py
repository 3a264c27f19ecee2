"""Similarity and the numbers of active and passive latents (theorems 7.4.1, 7.4.2)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaescope.encoding import encode
from vaescope.errors import DataError
from vaescope.models import Linear
from vaescope.similarity import conservation

GENERATOR = np.random.default_rng(0)


def variances(active: int, passive: int, items: int = 100, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.hstack(
        [0.02 * generator.uniform(0.5, 1.5, (items, active)), 1 - 0.02 * generator.uniform(size=(items, passive))]
    )[:, generator.permutation(active + passive)]


def reference_alignment(first: np.ndarray, second: np.ndarray) -> float:
    """Equation 2.2 of the two diagonal matrices, the best over all orders of the latents, by trying some at random."""
    best = 0.0
    generator = np.random.default_rng(0)
    for _ in range(3000):
        s, t = np.diag(first), np.diag(second[generator.permutation(len(second))])
        own = np.linalg.norm(s.T @ s) * np.linalg.norm(t.T @ t)
        best = max(best, np.linalg.norm(s.T @ t) ** 2 / own)
    return best


def test_the_alignment_is_equation_2_2_under_the_best_order() -> None:
    first, second = GENERATOR.uniform(0.01, 1, (2, 5))
    found = conservation(np.tile(first, (3, 1)), np.tile(second, (3, 1)))
    assert found.alignment == pytest.approx(reference_alignment(first, second), abs=1e-12)
    assert found.cka is None


@given(
    latents=st.integers(2, 12),
    passive=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_above_the_bound_polarised_models_have_equal_numbers(latents: int, passive: tuple[int, int], seed: int) -> None:
    counts = [min(count, latents) for count in passive]
    sides = [
        np.random.default_rng(seed + number).permuted(np.tile(np.arange(latents) < count, (4, 1)).astype(float), axis=1)
        for number, count in enumerate(counts)
    ]
    types = [np.where(np.arange(latents) < count, "passive", "active") for count in counts]
    found = conservation(*sides, types_a=types[0], types_b=types[1])
    assert found.alignment == pytest.approx(math.sqrt(min(counts) / max(counts)))
    assert found.predicted is (True if counts[0] == counts[1] else None)
    assert found.holds is (True if counts[0] == counts[1] else None)


def test_equal_numbers_are_predicted_and_found_in_any_order() -> None:
    found = conservation(variances(4, 6), variances(4, 6, seed=3))
    assert (found.predicted, found.measured, found.holds) == (True, True, True)
    assert found.counts[0] == {"active": 4, "mixed": 0, "passive": 6}
    assert "predicted and found" in found.summary()
    assert found.rows()[2] == {"type": "passive", "a": 6, "b": 6}


def test_different_numbers_are_not_predicted() -> None:
    found = conservation(variances(3, 7), variances(4, 6, seed=3))
    assert (found.predicted, found.measured, found.holds) == (None, False, None)
    assert "no prediction" in found.summary()


def test_linear_models_keep_the_theorem() -> None:
    spread = np.array([3.0, 2.0, 1.5, 0.1, 0.1, 0.1])
    data = GENERATOR.normal(size=(500, 6)) * spread
    one, same, other = (encode(Linear.fit(data, 5, gamma=gamma), data) for gamma in (0.02, 0.021, 3.0))
    assert conservation(one, same).holds is True
    assert conservation(one, other).predicted is None


def test_without_passive_latents_the_scale_is_free() -> None:
    found = conservation(np.full((5, 2), 0.01), np.full((5, 2), 1.0))
    assert found.alignment == pytest.approx(1)
    assert found.holds is False


def test_centred_cka_of_one_leaves_the_number_of_passive_latents_open() -> None:
    signal = 0.01 * GENERATOR.uniform(size=(200, 1))
    still = np.ones((200, 1))
    one = np.hstack([0.02 + signal, still])
    other = np.hstack([0.02 + signal / math.sqrt(2), 0.02 + signal / math.sqrt(2)])
    found = conservation(one, other)
    assert found.cka == pytest.approx(1, abs=1e-10)
    assert not found.measured
    # The similarity of the proofs, which is not centred, also detects the constant passive latent.
    assert found.predicted is None


def test_wrong_variances_are_named() -> None:
    with pytest.raises(DataError, match=r"a must.*-2"):
        conservation(np.full((4, 2), -2.0), np.ones((4, 2)))
    with pytest.raises(DataError, match="b must"):
        conservation(np.ones((4, 2)), np.zeros((4, 2)))
    with pytest.raises(DataError, match="2 latents"):
        conservation(np.ones((4, 2)), np.ones((4, 2)), types_a=["passive"])
    assert conservation(np.ones((4, 2)), np.ones((4, 3))).alignment is None
