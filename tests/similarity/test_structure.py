"""The Structure Preservation Index against scipy's cosine distances, and what leaves it unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import vaescope.similarity.structure as module
from vaescope.errors import DataError
from vaescope.similarity import structure_preservation

GENERATOR = np.random.default_rng(0)
ITEMS = GENERATOR.normal(size=(30, 7)) + 1
OTHERS = ITEMS + 0.3 * GENERATOR.normal(size=(30, 7))


def reference(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(cdist(a, a, "cosine") - cdist(b, b, "cosine")).sum() / len(a))


def test_it_is_the_change_of_scipys_cosines() -> None:
    assert structure_preservation(ITEMS, OTHERS) == pytest.approx(reference(ITEMS, OTHERS))
    assert structure_preservation(OTHERS, ITEMS) == pytest.approx(reference(ITEMS, OTHERS))


def test_two_items_count_each_pair_in_both_orders() -> None:
    # Orthogonal items with equal reconstructions: the cosine changes by 1, in two of the four pairs, over two items.
    assert structure_preservation(np.eye(2), np.ones((2, 2))) == pytest.approx(1)


def test_reconstructions_may_have_other_scales_and_another_rotation() -> None:
    rotation = np.linalg.qr(GENERATOR.normal(size=(7, 7)))[0]
    scales = GENERATOR.uniform(0.1, 10, size=(30, 1))
    assert structure_preservation(ITEMS, scales * ITEMS @ rotation) == pytest.approx(0, abs=1e-12)
    tiny, huge = 1e-200 * ITEMS, 1e200 * ITEMS
    assert structure_preservation(tiny, huge) == pytest.approx(0, abs=1e-12)


def test_a_shift_changes_it_because_items_are_not_centred() -> None:
    assert structure_preservation(ITEMS, ITEMS + 5) > 1


def test_opposite_items_with_equal_reconstructions_reach_the_upper_bound() -> None:
    assert structure_preservation(np.array([[1.0, 2], [-1, -2]]), np.ones((2, 2))) == pytest.approx(2 * (2 - 1))


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = structure_preservation(ITEMS, OTHERS)
    monkeypatch.setattr(module, "rows_per_chunk", lambda columns: 7)
    assert structure_preservation(torch.from_numpy(ITEMS), OTHERS) == pytest.approx(whole)


ZERO = np.vstack([ITEMS[:3], np.zeros((1, 7))])


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ((ZERO, ITEMS[:4]), "items must have no item that is 0 everywhere.* item 3 is"),
        ((ITEMS[:4], ZERO), "reconstructions must have no item that is 0 everywhere"),
        ((ITEMS, OTHERS[:4]), "same items"),
        ((ITEMS * np.nan, OTHERS), "finite"),
    ],
)
def test_items_without_a_cosine_are_refused(pair: tuple[Any, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        structure_preservation(*pair)
