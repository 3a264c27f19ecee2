"""Maximum likelihood estimates: plain loops, known manifolds, invariances, stable ks, and bad input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from vaescope import dimension
from vaescope.data import open_dataset
from vaescope.dimension import mle, mle_sweep, neighbours
from vaescope.errors import ConfigurationError, DataError, UnknownNameError


def some_items(items: int = 60, dimensions: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((items, dimensions))


def plain_inverses(x: np.ndarray, k: int, divisor: int) -> list[float]:
    """1 / d_i of eq. 8.2, one item at a time."""
    inverses = []
    for i in range(len(x)):
        near = sorted(math.dist(x[i], x[j]) for j in range(len(x)) if j != i)[:k]
        inverses.append(sum(math.log(near[k - 1] / near[j]) for j in range(k - 1)) / divisor)
    return inverses


@pytest.mark.parametrize("k", [3, 5, 20])
def test_both_averagings_equal_a_plain_loop(k: int) -> None:
    x = some_items()
    inverses = plain_inverses(x, k, k - 2)
    assert mle(x, k).dimension == pytest.approx(len(x) / sum(inverses))
    assert mle(x, k, correction=1).dimension == pytest.approx(len(x) / sum(plain_inverses(x, k, k - 1)))
    inverses = plain_inverses(x, k, k - 1)
    found = mle(x, k, "levina-bickel")
    assert found.dimension == pytest.approx(sum(1 / one for one in inverses) / len(x))
    assert (found.k, found.averaging, found.correction, found.items, found.duplicates) == (k, "levina-bickel", 1, 60, 0)


def test_the_worked_example_of_the_thesis_holds() -> None:
    x = np.array([[0.0, 0, 0], [0, 1, 0], [1, 0, 0], [2, 0, 0]])
    # Equation 8.4 gives 1 / log 2 for the first item; its inverse is one of the four that are averaged.
    assert plain_inverses(x, 3, 2)[0] == pytest.approx(math.log(2))
    assert mle(x, 3, correction=1).dimension == pytest.approx(4 / sum(plain_inverses(x, 3, 2)))


@pytest.mark.parametrize("name", ["gaussian-manifold", "sphere-manifold"])
@pytest.mark.parametrize("averaging", ["mackay-ghahramani", "levina-bickel"])
def test_known_manifolds_have_their_dimension(name: str, averaging: str) -> None:
    data = open_dataset(name, dimension=5, ambient=20, items=2000)
    assert dimension.mle(data, k=20, averaging=averaging).dimension == pytest.approx(5, rel=0.15)


def test_the_unbiased_divisors_are_right_for_uniform_points() -> None:
    angle = 2 * math.pi * np.random.default_rng(0).random(3000)
    circle = neighbours(np.stack([np.cos(angle), np.sin(angle)], 1), 20)
    for k in (4, 20):
        assert mle(circle, k, correction=1, subsamples=1).dimension == pytest.approx(1, rel=0.04)
        assert mle(circle, k, "levina-bickel", correction=2, subsamples=1).dimension == pytest.approx(1, rel=0.04)
        assert mle(circle, k, subsamples=1).dimension == pytest.approx((k - 2) / (k - 1), rel=0.04)


def test_the_estimate_is_invariant_to_rotation_translation_and_scale() -> None:
    x = some_items(200, 4)
    rotation = np.linalg.qr(some_items(4, 4, 1))[0]
    wanted = mle(x, 10)
    for other in (x @ rotation, x + 100, x * 1e-30, x * 1e30):
        found = mle(other, 10)
        assert found.dimension == pytest.approx(wanted.dimension, rel=1e-9)
        assert found.interval == pytest.approx(wanted.interval, rel=1e-9)


def test_duplicates_are_removed_and_counted() -> None:
    x = some_items()
    twice = np.concatenate([x, x[:25], x[:5]])
    found = mle(twice, 5)
    assert (found.items, found.duplicates) == (60, 30)
    assert found.dimension == mle(x, 5).dimension


def test_arrays_tensors_images_and_data_sets_give_the_same_estimate() -> None:
    x = some_items(80, 12).astype(np.float32)
    wanted = mle(x, 5)
    images = torch.from_numpy(x).reshape(80, 1, 3, 4)
    for other in (torch.from_numpy(x), images, x.astype(">f4"), open_dataset(x), neighbours(x, 9)):
        assert mle(other, 5) == wanted


def test_integers_and_booleans_are_numbers() -> None:
    bits = np.random.default_rng(0).integers(0, 2, (100, 30))
    wanted = mle(bits.astype(float), 20)
    assert mle(bits, 20) == mle(bits.astype(bool), 20) == mle(torch.from_numpy(bits).to(torch.uint8), 20) == wanted


def test_the_interval_contains_the_estimate_and_depends_only_on_the_seed() -> None:
    x = some_items(300)
    found = mle(x, 10, seed=1)
    assert found.interval[0] < found.dimension < found.interval[1]
    assert mle(x, 10, seed=1) == found
    assert mle(x, 10, seed=2).interval != found.interval
    assert mle(x, 10, seed=2).dimension == found.dimension


def test_the_width_of_the_interval_follows_the_spread_of_items_for_any_share() -> None:
    x = some_items(500)
    values = 1 / np.array(plain_inverses(x, 10, 9))
    wanted = 2 * 1.96 * values.std() / math.sqrt(len(x))
    for share in (0.3, 0.8):
        low, high = mle(x, 10, "levina-bickel", share=share, subsamples=1000).interval
        assert high - low == pytest.approx(wanted, rel=0.12)


def test_a_sweep_equals_the_single_estimates_and_keeps_the_longest_stable_sequence() -> None:
    data = open_dataset("gaussian-manifold", dimension=5, ambient=20, items=1000)
    near = neighbours(data, 20)
    sweep = mle_sweep(near)
    assert sweep.estimates == tuple(mle(near, k) for k in (3, 5, 10, 20))
    assert sweep.stable == (10, 20)
    assert sweep.best == mle(near, 20)
    assert [row["stable"] for row in sweep.rows()] == [False, False, True, True]
    assert sweep.summary().endswith("stable for k = 10, 20 of 3, 5, 10, 20")
    assert mle_sweep(near, (20, 3, 10, 5)).estimates == sweep.estimates
    assert mle_sweep(near, tolerance=10).stable == (3, 5, 10, 20)


def test_the_sequence_that_differs_least_wins_a_tie() -> None:
    x = some_items(400)
    sweep = mle_sweep(x, (6, 10, 20))
    first, second, third = (one.dimension for one in sweep.estimates)
    gaps = [max(pair) / min(pair) - 1 for pair in ((first, second), (second, third))]
    tolerance = max(gaps) * 1.0001
    assert max(first, second, third) / min(first, second, third) - 1 > tolerance
    wanted = (6, 10) if gaps[0] < gaps[1] else (10, 20)
    assert mle_sweep(x, (6, 10, 20), tolerance=tolerance).stable == wanted


def test_a_sweep_without_agreement_says_so() -> None:
    sweep = mle_sweep(some_items(), (3, 20), tolerance=0)
    assert sweep.stable == ()
    assert sweep.best is None
    assert "no stable" in sweep.summary()


def test_rows_and_summary_hold_the_estimate_and_its_settings() -> None:
    found = mle(some_items(), 5)
    assert found.rows() == [
        {
            "k": 5,
            "dimension": found.dimension,
            "low": found.interval[0],
            "high": found.interval[1],
            "averaging": "mackay-ghahramani",
            "correction": 2,
            "items": 60,
            "duplicates": 0,
        }
    ]
    assert f"{found.dimension:.2f}, between {found.interval[0]:.2f} and" in found.summary()


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (some_items(20), "21 distinct items.* got 20 and 0 duplicates"),
        (np.ones((50, 3)), "all 50 are the same"),
        (some_items(1), "21 distinct items.* got 1 and 0"),
        (np.where(np.arange(90).reshape(30, 3) == 7, math.nan, 1.0), "finite.* item 2"),
        (np.full((30, 3), math.inf), "finite.* item 0"),
        (np.zeros((0, 3)), r"shape \(0, 3\)"),
        (np.zeros(30), r"shape \(30,\)"),
        (np.array([["a"]]), "real numbers, got type <U1"),
        (torch.zeros(30, 2, dtype=torch.complex64), "real numbers, got type torch.complex64"),
        ("mnist", "real numbers, got type <U5"),
        (np.eye(30), "20 nearest neighbours of 30 of 30 items"),
        (neighbours(some_items(), 5), "at least 20 neighbours.* got 5"),
    ],
)
def test_data_without_a_dimension_are_refused(x: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        mle(x)


def test_infinite_estimates_are_refused_only_when_estimates_are_averaged() -> None:
    x = np.concatenate([np.eye(10), 10 + some_items(30, 10)])
    with pytest.raises(DataError, match="3 nearest neighbours of 10 of 40 items"):
        mle(x, 3, "levina-bickel")
    assert math.isfinite(mle(x, 3).dimension)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 2}, "k must .* 3"),
        ({"k": 1, "averaging": "levina-bickel"}, "k must .* 2"),
        ({"k": 2.5}, "k must be"),
        ({"correction": 3}, "correction must .* from 1 to 2"),
        ({"share": 1}, "share must"),
        ({"confidence": 0}, "confidence must"),
        ({"subsamples": 0}, "subsamples must be"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_an_option_out_of_range_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        mle(some_items(), **options)


def test_an_unknown_averaging_gets_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'levina-bickel'"):
        mle(some_items(), averaging="levina-bikel")


@pytest.mark.parametrize("ks", [(), (5,), (5, 5), (3, "5")])
def test_a_sweep_needs_two_different_ks(ks: Any) -> None:
    with pytest.raises(ConfigurationError, match="ks"):
        mle_sweep(some_items(), ks)
