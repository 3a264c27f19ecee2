"""All estimates from one search: their parts, the number of latents to start with, and bad input."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch

import vaescope.dimension.neighbour_distances as points
from vaescope.data import open_dataset
from vaescope.dimension import estimate, mle, mle_sweep, neighbours, twonn
from vaescope.errors import ConfigurationError, DataError


def some_items(items: int = 60, dimensions: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((items, dimensions))


def bits(items: int = 300, dimensions: int = 12) -> np.ndarray:
    """Binary items, whose distances are often equal."""
    return np.random.default_rng(0).integers(0, 2, (items, dimensions)).astype(np.float32)


def test_the_parts_equal_the_separate_estimates() -> None:
    near = neighbours(some_items(200), 20)
    found = estimate(near, tolerance=0.2, anchor=0.8, share=0.5, subsamples=50, confidence=0.9, seed=3)
    options: dict[str, Any] = {"tolerance": 0.2, "share": 0.5, "subsamples": 50, "confidence": 0.9, "seed": 3}
    assert found.mackay_ghahramani == mle_sweep(near, **options)
    assert found.levina_bickel == mle_sweep(near, averaging="levina-bickel", **options)
    assert found.twonn == twonn(near, 0.8)
    assert found.infinite == ()


def test_neighbours_are_searched_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = []
    search = points.nearest_distances
    monkeypatch.setattr(points, "nearest_distances", lambda x, k: searches.append(k) or search(x, k))
    estimate(some_items(), (5, 3, 10))
    assert searches == [10]


@pytest.mark.parametrize("name", ["gaussian-manifold", "sphere-manifold"])
@pytest.mark.parametrize("dimension", [1, 5])
def test_known_manifolds_start_with_their_dimension(name: str, dimension: int) -> None:
    found = estimate(open_dataset(name, dimension=dimension, ambient=20, items=2000), (10, 20))
    assert found.latents_to_start_with == dimension


def test_the_start_is_the_largest_stable_k_rounded() -> None:
    found = estimate(open_dataset("gaussian-manifold", dimension=5, ambient=20, items=1000), (3, 5, 10, 20, 100))
    assert found.mackay_ghahramani.stable == (10, 20, 100)
    assert found.chosen.k == 100
    only = dataclasses.replace(found.mackay_ghahramani, stable=(5, 10))
    assert dataclasses.replace(found, mackay_ghahramani=only).chosen.k == 10
    assert found.latents_to_start_with == round(found.dimension)


def test_without_a_stable_k_the_largest_is_taken() -> None:
    found = estimate(some_items(), (3, 5, 20), tolerance=0)
    assert found.mackay_ghahramani.stable == ()
    assert found.chosen == mle(some_items(), 20)
    assert "k = 20, no k is stable" in found.summary()


def test_the_start_is_at_least_one_latent() -> None:
    steps = np.cumsum(np.exp(some_items(60, 1) * 8), 0)
    found = estimate(steps, (3, 5))
    assert found.dimension < 0.5
    assert found.latents_to_start_with == 1


def test_equally_distant_neighbours_skip_only_the_mean_of_estimates() -> None:
    found = estimate(bits(), (3, 20))
    with pytest.raises(DataError, match="Raise k or use averaging 'mackay-ghahramani'"):
        mle(bits(), 3, "levina-bickel")
    assert 3 in found.infinite
    assert {one.k for one in found.levina_bickel.estimates} == {3, 20} - set(found.infinite)
    assert [one.k for one in found.mackay_ghahramani.estimates] == [3, 20]
    numbers = [row[name] for row in found.rows() for name in ("dimension", "low", "high") if row[name] is not None]
    assert all(math.isfinite(number) and number > 0 for number in numbers)


def test_the_summary_says_when_no_mean_of_estimates_is_finite() -> None:
    # The first ten items are equally distant from each other, and far from the rest.
    x = np.concatenate([np.eye(10), 10 + some_items(30, 10)])
    found = estimate(x, (3, 4))
    assert found.infinite == (3, 4)
    assert found.levina_bickel.estimates == ()
    assert "levina-bickel infinite" in found.summary()
    assert len(found.rows()) == 3


def test_all_rows_have_the_same_columns() -> None:
    found = estimate(some_items(), (3, 5))
    rows = found.rows()
    assert [(row["estimator"], row["averaging"], row["k"]) for row in rows] == [
        ("mle", "mackay-ghahramani", 3),
        ("mle", "mackay-ghahramani", 5),
        ("mle", "levina-bickel", 3),
        ("mle", "levina-bickel", 5),
        ("twonn", None, 2),
    ]
    assert len({tuple(row) for row in rows}) == 1
    assert rows[1]["dimension"] == mle(some_items(), 5).dimension
    assert rows[-1]["dimension"] == twonn(some_items()).dimension
    assert found.summary().endswith(f"start with {found.latents_to_start_with} latents")
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.infinite = (3,)


def test_the_device_can_be_chosen() -> None:
    x = some_items(80, 12).astype(np.float32)
    for other in (x, torch.from_numpy(x), open_dataset(x)):
        assert estimate(other, device="cpu") == estimate(x)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (some_items(20), "21 distinct items.* got 20 and 0 duplicates"),
        (np.tile(some_items(20), (3, 1)), "21 distinct items.* got 20 and 40 duplicates"),
        (np.zeros((50, 3)), "all 50 are the same"),
        (np.full((50, 3), math.nan), "finite.* item 0"),
        (np.eye(30), "3 nearest neighbours of 30 of 30 items"),
    ],
)
def test_data_without_a_dimension_are_refused(x: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        estimate(x)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ks": (20,)}, "ks must .* two"),
        ({"ks": (2, 5)}, "ks must .* 3"),
        ({"tolerance": -1}, "tolerance"),
        ({"anchor": 1}, "anchor"),
        ({"share": 0}, "share"),
        ({"subsamples": 0}, "subsamples"),
    ],
)
def test_an_option_out_of_range_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        estimate(some_items(), **options)
