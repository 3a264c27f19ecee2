"""Items that share the value of a factor: from labelled codes and from grids, against plain counting."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from vaescope.data import Dataset, Factors, open_dataset
from vaescope.encoding import encode
from vaescope.errors import ConfigurationError, DataError
from vaescope.metrics.factor_vae import factor_vae
from vaescope.metrics.inputs import Labelled, labelled
from vaescope.metrics.irs import irs
from vaescope.metrics.sampling import Cells, Grid, Items, blocks
from vaescope.models.linear import Linear

SIZES = (3, 1, 4, 2)
VARYING = (0, 2, 3)


class Cube(Dataset):
    """Items that are the values of their factors; it counts how often each was asked for."""

    name, grid = "cube", True
    fingerprint = "cube"

    def __init__(self, sizes: tuple[int, ...] = SIZES) -> None:
        self.factor_table = Factors(tuple("abcdef"[: len(sizes)]), sizes)
        self.shape = (len(sizes),)
        self.asked = np.zeros(len(self), dtype=np.int64)

    def __len__(self) -> int:
        assert self.factor_table is not None
        return self.factor_table.cells

    def batch(self, index: Tensor) -> Tensor:
        assert self.factor_table is not None
        np.add.at(self.asked, index.numpy(), 1)
        return self.factor_table.codes(index).float()

    def to(self, device: torch.device | str) -> Cube:
        return self


def itself(batch: Tensor) -> tuple[Tensor, Tensor]:
    return batch[:, list(VARYING)], torch.full((len(batch), len(VARYING)), 0.01)


def whole(batch: Tensor) -> tuple[Tensor, Tensor]:
    return batch, torch.ones_like(batch)


def values_of(items: np.ndarray, sizes: tuple[int, ...] = SIZES) -> np.ndarray:
    return np.stack(np.unravel_index(items, sizes), axis=-1)


def table(items: int = 300, seed: int = 0) -> Labelled:
    generator = np.random.default_rng(seed)
    factors = np.stack([generator.integers(count, size=items) for count in (2, 5, 9)], axis=1)
    return labelled(generator.standard_normal((items, 4)), factors)


def cells(table: int = 1 << 20) -> Cells:
    everything = np.arange(int(np.prod(SIZES)))
    codes = values_of(everything)[:, VARYING].astype(float)
    return Cells(labelled(codes, codes), SIZES, lambda items: codes[items], table)


@pytest.mark.parametrize("kind", ["items", "cells"])
def test_every_item_shares_the_value_of_its_anchor(kind: str) -> None:
    source = Items(table()) if kind == "items" else cells()
    factors = table().classes if kind == "items" else values_of(np.arange(24))[:, VARYING]
    generator = np.random.default_rng(1)
    fixed = generator.integers(3, size=(500, 1))
    anchors = source.anywhere(generator.random((500, 1)))
    found = source.sharing(fixed, anchors, generator.random((500, 20)))
    assert found.shape == (500, 20)
    np.testing.assert_array_equal(factors[found, fixed], np.broadcast_to(factors[anchors, fixed], found.shape))


@pytest.mark.parametrize("kind", ["items", "cells"])
def test_all_items_with_the_value_are_equally_likely(kind: str) -> None:
    source = Items(table(60)) if kind == "items" else cells()
    factors = table(60).classes if kind == "items" else values_of(np.arange(24))[:, VARYING]
    anchor, fixed, draws = 7, 1, 200_000
    uniform = np.random.default_rng(2).random(draws)
    counts = np.bincount(source.sharing(np.array(fixed), np.array(anchor), uniform), minlength=len(factors))
    alike = np.flatnonzero(factors[:, fixed] == factors[anchor, fixed])
    assert counts.sum() == counts[alike].sum()
    # Six standard errors of a count: one draw in a thousand million would lie outside.
    expected = draws / len(alike)
    assert np.abs(counts[alike] - expected).max() < 6 * np.sqrt(expected)


def test_the_largest_uniform_number_is_still_an_item() -> None:
    last = np.array(np.nextafter(1, 0))
    for source, count in ((Items(table()), 300), (cells(), 24)):
        assert source.anywhere(last) == count - 1
        assert 0 <= source.sharing(np.array(1), np.array(0), last) < count


def test_codes_of_labelled_items_are_found_in_columns() -> None:
    data = table()
    items = np.array([[5, 3], [299, 5]])
    columns, places = Items(data).columns(items)
    np.testing.assert_array_equal(np.moveaxis(columns[:, places], 0, -1), data.codes[items])


@pytest.mark.parametrize("limit", [1 << 20, 1])
def test_codes_of_cells_do_not_depend_on_how_many_fit_in_memory(limit: int) -> None:
    source = cells(limit)
    for items in (np.array([[5, 3], [23, 5]]), np.array([[5, 0], [1, 1]])):
        columns, places = source.columns(items)
        np.testing.assert_array_equal(np.moveaxis(columns[:, places], 0, -1), values_of(items)[..., VARYING])


def test_a_grid_is_encoded_once_for_each_item_that_was_drawn() -> None:
    data = Cube()
    score = factor_vae(Grid(itself, data), votes=200, tested=100)
    assert score.score == 1
    # Once in the sample that tells the spread, and once for the votes.
    assert data.asked.max() == 2


def test_a_grid_and_its_items_with_labels_score_alike() -> None:
    data = Cube((4, 6, 5))
    mixed = torch.tensor([[1.0, 0.9, 0.0], [0.8, -1.0, 0.7], [0.3, 0.9, 1.0]])

    def blended(batch: Tensor) -> tuple[Tensor, Tensor]:
        return batch @ mixed, torch.ones(len(batch), 3)

    index = torch.arange(len(data))
    drawn = factor_vae(Grid(blended, data), seed=1)
    given = factor_vae(blended(data.batch(index))[0], data.factor_table.codes(index), seed=1)  # type: ignore[union-attr]
    # Two shares of 5,000 votes: four standard errors of their difference, at most.
    assert abs(drawn.score - given.score) < 4 * np.sqrt(2 * 0.25 / 5_000)
    assert drawn.score < 0.98
    assert "full grid" in drawn.estimator
    assert "labelled items" in given.estimator


def test_factors_of_one_value_are_not_held_fixed() -> None:
    score = factor_vae(Grid(itself, Cube()), votes=100, tested=100)
    assert score.factors == ("a", "c", "d")
    assert irs(Grid(itself, Cube())).factors == ("a", "c", "d")


def test_a_grid_takes_names_for_all_its_factors() -> None:
    score = factor_vae(Grid(itself, Cube()), votes=50, tested=50, names=["shape", "colour", "place", "turn"])
    assert score.factors == ("shape", "place", "turn")


def test_a_grid_has_a_scale_from_noise_to_its_factors() -> None:
    score = factor_vae(Grid(whole, Cube((5, 6, 4))), scale=True)
    assert score.perfect == 1
    assert score.random is not None
    # Chance is 1/3; the majority of each latent adds what it learned of the noise, which is fixed for each cell.
    assert 1 / 3 - 0.03 < score.random < 0.45


def test_latents_of_a_type_can_be_left_out_of_a_grid() -> None:
    def idling(batch: Tensor) -> tuple[Tensor, Tensor]:
        mean, variance = itself(batch)
        idle = torch.zeros(len(batch), 1)
        return torch.cat((idle, mean), 1), torch.cat((idle + 1, variance), 1)

    data = Cube()
    assert factor_vae(Grid(idling, data), votes=50, tested=50, exclude="passive").latents == (1, 2, 3)
    types = ["active", "active", "passive", "active"]
    assert factor_vae(Grid(idling, data), votes=50, tested=50, exclude="passive", types=types).latents == (0, 1, 3)


def test_a_named_data_set_can_be_a_grid() -> None:
    assert Grid(itself, "dsprites-small").factors.names[1] == "shape"  # type: ignore[arg-type]


def test_data_that_are_no_grid_are_named() -> None:
    with pytest.raises(DataError, match=r"every combination of its factors once, in order; 'array' does not"):
        Grid(itself, open_dataset(np.random.default_rng(0).random((20, 3))))
    with pytest.raises(DataError, match="'cube' does not"):
        Grid(itself, Cube().draw(10))


def test_a_grid_without_a_model_is_refused() -> None:
    with pytest.raises(DataError, match="needs a model or a function that encodes its data, got ndarray"):
        Grid(np.zeros((24, 3)), Cube())


def test_a_model_and_its_codes_agree_on_a_grid() -> None:
    data = Cube((4, 6, 5))
    model = Linear.fit(data, 3)
    drawn, given = (factor_vae(subject, seed=2) for subject in (Grid(model, data), encode(model, data)))
    # Two shares of 5,000 votes: four standard errors of their difference, at most.
    assert abs(drawn.score - given.score) < 4 * np.sqrt(2 * 0.25 / 5_000)


def test_a_grid_refuses_what_only_labelled_items_have() -> None:
    with pytest.raises(ConfigurationError, match="half_samples are of labelled items"):
        factor_vae(Grid(itself, Cube()), half_samples=5)
    with pytest.raises(ConfigurationError, match="a grid has its own factors"):
        factor_vae(Grid(itself, Cube()), np.zeros((24, 2)))


def test_codes_of_a_grid_that_are_not_finite_name_the_item() -> None:
    class Broken(torch.nn.Module):
        def encode(self, batch: Tensor) -> tuple[Tensor, Tensor]:
            return batch / 0, torch.ones_like(batch)

    with pytest.raises(DataError, match=r"finite"):
        factor_vae(Grid(Broken(), Cube()), votes=10, tested=10)


def test_a_value_with_a_single_item_is_named() -> None:
    factors = np.array([0, 0, 1, 1, 2])
    with pytest.raises(DataError, match="class 2 of 'factor 0' has 1"):
        Items(labelled(np.random.default_rng(0).random((5, 2)), factors))


def test_a_continuous_factor_cannot_be_held_fixed() -> None:
    generator = np.random.default_rng(0)
    with pytest.raises(DataError, match="'factor 1' is continuous"):
        factor_vae(generator.random((50, 2)), np.stack((np.arange(50) % 2, generator.random(50)), 1))


@settings(max_examples=30, deadline=None)
@given(count=st.integers(0, 5000), size=st.integers(1, 1 << 21))
def test_blocks_cover_all_batches_once(count: int, size: int) -> None:
    covered = [place for part in blocks(min(count, 500), size) for place in range(count)[part]]
    assert covered == list(range(min(count, 500)))
