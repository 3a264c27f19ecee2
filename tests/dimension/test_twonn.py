"""TwoNN: a plain loop, known manifolds, invariances, and bad input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from vaescope import dimension
from vaescope.data import open_dataset
from vaescope.dimension import neighbours, twonn
from vaescope.errors import ConfigurationError, DataError


def some_items(items: int = 60, dimensions: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((items, dimensions))


def plain_twonn(x: np.ndarray, kept: int) -> float:
    """The slope through the origin of the first `kept` of the coordinates that section 8.2.3 gives."""
    ratios = []
    for i in range(len(x)):
        first, second = sorted(math.dist(x[i], x[j]) for j in range(len(x)) if j != i)[:2]
        ratios.append(second / first)
    points = [(math.log(r), -math.log(1 - (i + 1) / len(x))) for i, r in enumerate(sorted(ratios)[:kept])]
    return sum(a * b for a, b in points) / sum(a * a for a, _ in points)


@pytest.mark.parametrize(("anchor", "items", "kept"), [(0.9, 60, 54), (0.8, 60, 48), (0.29, 100, 29), (0.9, 3, 2)])
def test_the_slope_equals_a_plain_loop(anchor: float, items: int, kept: int) -> None:
    x = some_items(items)
    found = twonn(x, anchor)
    assert found.dimension == pytest.approx(plain_twonn(x, kept))
    assert (found.anchor, found.kept, found.items, found.duplicates) == (anchor, kept, items, 0)


@pytest.mark.parametrize("name", ["gaussian-manifold", "sphere-manifold"])
def test_known_manifolds_have_their_dimension(name: str) -> None:
    data = open_dataset(name, dimension=5, ambient=20, items=2000)
    assert dimension.twonn(data).dimension == pytest.approx(5, rel=0.15)


def test_the_estimate_is_invariant_to_rotation_translation_and_scale() -> None:
    x = some_items(200, 4)
    rotation = np.linalg.qr(some_items(4, 4, 1))[0]
    wanted = twonn(x).dimension
    for other in (x @ rotation, x + 100, x * 1e-30, x * 1e30):
        assert twonn(other).dimension == pytest.approx(wanted, rel=1e-9)


def test_duplicates_are_removed_and_counted() -> None:
    x = some_items()
    found = twonn(np.concatenate([x, x[:20]]))
    assert (found.items, found.duplicates) == (60, 20)
    assert found.dimension == twonn(x).dimension


def test_a_search_for_more_neighbours_gives_the_same_estimate() -> None:
    x = some_items()
    assert twonn(neighbours(x, 20)).dimension == pytest.approx(twonn(x).dimension, rel=1e-12)


def test_rows_and_summary_hold_the_estimate_and_its_settings() -> None:
    found = twonn(some_items())
    row = {"dimension": found.dimension, "anchor": 0.9, "kept": 54, "items": 60, "duplicates": 0}
    assert found.rows() == [row]
    assert f"{found.dimension:.2f} (TwoNN, lowest 90% of 60 items" in found.summary()


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (some_items(2), "3 distinct items.* got 2"),
        (some_items(1), "3 distinct items.* got 1"),
        (np.ones((50, 3)), "all 50 are the same"),
        (np.full((30, 3), math.nan), "finite.* item 0"),
        (np.eye(30), "grid"),
    ],
)
def test_data_without_a_dimension_are_refused(x: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        twonn(x)


def test_an_anchor_that_keeps_nothing_is_refused() -> None:
    with pytest.raises(DataError, match=r"anchor .* 5 distinct items"):
        twonn(some_items(5), 0.1)


@pytest.mark.parametrize("anchor", [0, 1, 1.5, math.nan, "0.9"])
def test_an_anchor_is_a_share(anchor: Any) -> None:
    with pytest.raises(ConfigurationError, match="anchor must"):
        twonn(some_items(), anchor)
