"""Items that share the value of a factor: from labelled codes and from grids, against plain counting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vaescope.codes import Representation
from vaescope.errors import ConfigurationError, DataError
from vaescope.metrics.fixed_factor import factor_vae, irs
from vaescope.metrics.inputs import MetricInputs, metric_inputs
from vaescope.metrics.sampling import FactorGrid, GridSampler, ItemSampler, blocks

SIZES = (3, 1, 4, 2)
VARYING = (0, 2, 3)


class Counted:
    """Codes that are the values of the varying factors; it counts how often each item is encoded."""

    def __init__(self) -> None:
        self.asked = np.zeros(int(np.prod(SIZES)), dtype=np.int64)

    def __call__(self, items: np.ndarray) -> np.ndarray:
        np.add.at(self.asked, items, 1)
        return values_of(items)[:, VARYING].astype(float)


def grid(encode: Any = None, sizes: tuple[int, ...] = SIZES) -> FactorGrid:
    return FactorGrid(encode or Counted(), sizes, tuple("abcdef"[: len(sizes)]))


def values_of(items: np.ndarray, sizes: tuple[int, ...] = SIZES) -> np.ndarray:
    return np.stack(np.unravel_index(items, sizes), axis=-1)


def table(items: int = 300, seed: int = 0) -> MetricInputs:
    generator = np.random.default_rng(seed)
    factors = np.stack([generator.integers(count, size=items) for count in (2, 5, 9)], axis=1)
    return metric_inputs(generator.standard_normal((items, 4)), factors)


def cells(table: int = 1 << 20) -> GridSampler:
    everything = np.arange(int(np.prod(SIZES)))
    codes = values_of(everything)[:, VARYING].astype(float)
    return GridSampler(metric_inputs(codes, codes), SIZES, lambda items: codes[items], table)


@pytest.mark.parametrize("kind", ["items", "cells"])
def test_every_item_shares_the_value_of_its_anchor(kind: str) -> None:
    source = ItemSampler(table()) if kind == "items" else cells()
    factors = table().classes if kind == "items" else values_of(np.arange(24))[:, VARYING]
    generator = np.random.default_rng(1)
    fixed = generator.integers(3, size=(500, 1))
    anchors = source.draw(generator.random((500, 1)))
    found = source.draw_sharing(fixed, anchors, generator.random((500, 20)))
    assert found.shape == (500, 20)
    np.testing.assert_array_equal(factors[found, fixed], np.broadcast_to(factors[anchors, fixed], found.shape))


@pytest.mark.parametrize("kind", ["items", "cells"])
def test_all_items_with_the_value_are_equally_likely(kind: str) -> None:
    source = ItemSampler(table(60)) if kind == "items" else cells()
    factors = table(60).classes if kind == "items" else values_of(np.arange(24))[:, VARYING]
    anchor, fixed, draws = 7, 1, 200_000
    uniform = np.random.default_rng(2).random(draws)
    counts = np.bincount(source.draw_sharing(np.array(fixed), np.array(anchor), uniform), minlength=len(factors))
    sharing = np.flatnonzero(factors[:, fixed] == factors[anchor, fixed])
    assert counts.sum() == counts[sharing].sum()
    # Six standard errors of a count: one draw in a thousand million would lie outside.
    expected = draws / len(sharing)
    assert np.abs(counts[sharing] - expected).max() < 6 * np.sqrt(expected)


def test_the_largest_uniform_number_is_still_an_item() -> None:
    last = np.array(np.nextafter(1, 0))
    for source, count in ((ItemSampler(table()), 300), (cells(), 24)):
        assert source.draw(last) == count - 1
        assert 0 <= source.draw_sharing(np.array(1), np.array(0), last) < count


def test_codes_of_labelled_items_are_found_in_columns() -> None:
    data = table()
    items = np.array([[5, 3], [299, 5]])
    columns, places = ItemSampler(data).columns(items)
    np.testing.assert_array_equal(np.moveaxis(columns[:, places], 0, -1), data.codes[items])


@pytest.mark.parametrize("limit", [1 << 20, 1])
def test_codes_of_cells_do_not_depend_on_how_many_fit_in_memory(limit: int) -> None:
    source = cells(limit)
    for items in (np.array([[5, 3], [23, 5]]), np.array([[5, 0], [1, 1]])):
        columns, places = source.columns(items)
        np.testing.assert_array_equal(np.moveaxis(columns[:, places], 0, -1), values_of(items)[..., VARYING])


def test_a_grid_is_encoded_once_for_each_item_that_was_drawn() -> None:
    encode = Counted()
    assert factor_vae(grid(encode), train_votes=200, test_votes=100).score == 1
    # Once in the sample from which the spread is known, and once for the votes.
    assert encode.asked.max() == 2


def test_a_grid_and_its_items_with_labels_have_the_same_score() -> None:
    sizes = (4, 6, 5)
    mixed = np.array([[1.0, 0.9, 0.0], [0.8, -1.0, 0.7], [0.3, 0.9, 1.0]])
    items = np.arange(4 * 6 * 5)
    drawn = factor_vae(grid(lambda some: values_of(some, sizes) @ mixed, sizes), seed=1)
    given = factor_vae(values_of(items, sizes) @ mixed, values_of(items, sizes), seed=1)
    # Two shares of 5,000 votes: four standard errors of their difference, at most.
    assert abs(drawn.score - given.score) < 4 * np.sqrt(2 * 0.25 / 5_000)
    assert drawn.score < 0.98
    assert "full grid" in drawn.estimator
    assert "labelled items" in given.estimator


def test_factors_of_one_value_are_not_held_fixed() -> None:
    assert factor_vae(grid(), train_votes=100, test_votes=100).factors == ("a", "c", "d")
    assert irs(grid()).factors == ("a", "c", "d")


def test_names_of_a_grid_can_be_replaced() -> None:
    names = ["shape", "colour", "place", "turn"]
    assert factor_vae(grid(), train_votes=50, test_votes=50, names=names).factors == ("shape", "place", "turn")
    with pytest.raises(DataError, match="4 factors"):
        factor_vae(grid(), names=names[:3])


def test_a_grid_has_a_scale_from_noise_to_its_factors() -> None:
    sizes = (5, 6, 4)
    score = factor_vae(grid(lambda items: values_of(items, sizes), sizes), scale=True)
    assert score.perfect == 1
    assert score.random is not None
    # Chance is 1/3; the majority of each latent adds what it learned of the noise, which is fixed for each item.
    assert 1 / 3 - 0.03 < score.random < 0.45


def test_latents_of_a_type_can_be_left_out_of_a_grid() -> None:
    def encode(items: np.ndarray) -> Representation:
        mean = np.column_stack([np.zeros(len(items)), values_of(items)[:, VARYING]])
        variance = np.broadcast_to([1.0, 0.01, 0.01, 0.01], mean.shape)
        return Representation(*(torch.tensor(part) for part in (mean, variance, mean)))

    found = factor_vae(grid(encode), train_votes=50, test_votes=50, exclude="passive")
    assert found.latents == (1, 2, 3)
    types = ["active", "active", "passive", "active"]
    found = factor_vae(grid(encode), train_votes=50, test_votes=50, exclude="passive", types=types)
    assert found.latents == (0, 1, 3)


def test_options_of_labelled_items_are_refused_for_a_grid() -> None:
    with pytest.raises(ConfigurationError, match="half_samples"):
        factor_vae(grid(), half_samples=5)
    with pytest.raises(ConfigurationError, match="rare is about labelled items"):
        factor_vae(grid(), rare="drop")
    with pytest.raises(ConfigurationError, match="factors"):
        factor_vae(grid(), np.zeros((24, 2)))


def test_wrong_grids_are_refused() -> None:
    with pytest.raises(DataError, match="ndarray"):
        FactorGrid(np.zeros((24, 3)), SIZES, ("a", "b", "c", "d"))  # type: ignore[arg-type]
    with pytest.raises(DataError, match="4 factors"):
        FactorGrid(Counted(), SIZES, ("a",))
    with pytest.raises(DataError, match=r"finite.*item 0"):
        factor_vae(grid(lambda items: np.full((len(items), 2), np.nan)), train_votes=10, test_votes=10)
    with pytest.raises(ConfigurationError, match="each of sizes"):
        FactorGrid(Counted(), (2, 0), ("a", "b"))
    fixed = np.random.default_rng(0).random((int(np.prod(SIZES)), 2))
    with pytest.raises(DataError, match=r"encode must return.*same latents for each"):
        factor_vae(grid(lambda items: fixed), train_votes=1, test_votes=1, batch=2)


def test_a_value_with_a_single_item_is_named() -> None:
    factors = np.array([0, 0, 1, 1, 2])
    with pytest.raises(DataError, match="class 2 of 'factor 0' has 1"):
        ItemSampler(metric_inputs(np.random.default_rng(0).random((5, 2)), factors))


def test_a_continuous_factor_cannot_be_held_fixed() -> None:
    generator = np.random.default_rng(0)
    with pytest.raises(DataError, match="'factor 1' is continuous"):
        factor_vae(generator.random((50, 2)), np.stack((np.arange(50) % 2, generator.random(50)), 1))


@settings(max_examples=30, deadline=None)
@given(count=st.integers(0, 5000), size=st.integers(1, 1 << 21))
def test_blocks_cover_all_batches_once(count: int, size: int) -> None:
    covered = [place for part in blocks(min(count, 500), size) for place in range(count)[part]]
    assert covered == list(range(min(count, 500)))
