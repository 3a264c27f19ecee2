"""Items for a trained model: one or several, of the right shape, with pixels scaled as in training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from vaescope.data import Dataset, Factors, open_dataset
from vaescope.data.conditions import condition_table
from vaescope.data.items import conditions_only, open_items
from vaescope.errors import DataError

RANDOM = np.random.default_rng(0)
GREY, COLOUR, VECTOR = (1, 8, 6), (3, 8, 6), (5,)
TABLE = Factors(("shape", "size"), (3, 4))


def values(data: Dataset) -> torch.Tensor:
    return data.batch(torch.arange(len(data)))


@pytest.mark.parametrize(
    ("given", "shape", "items"),
    [
        ((8, 6), GREY, 1),
        ((1, 8, 6), GREY, 1),
        ((8, 6, 1), GREY, 1),
        ((4, 8, 6), GREY, 4),
        ((4, 1, 8, 6), GREY, 4),
        ((4, 8, 6, 1), GREY, 4),
        ((3, 8, 6), COLOUR, 1),
        ((8, 6, 3), COLOUR, 1),
        ((2, 3, 8, 6), COLOUR, 2),
        ((2, 8, 6, 3), COLOUR, 2),
        ((3, 8, 6), GREY, 3),
        ((3, 3, 3), (3, 3, 3), 1),
        ((5,), VECTOR, 1),
        ((1, 5), VECTOR, 1),
        ((5, 5), VECTOR, 5),
        ((7,), (1,), 7),
        ((8, 6), (48,), 1),
        ((2, 8, 6), (48,), 2),
    ],
)
def test_the_shape_distinguishes_one_item_from_several(given: Any, shape: Any, items: int) -> None:
    array = RANDOM.random(given)
    data = open_items(array, shape)
    assert (len(data), data.shape) == (items, shape)
    moved = np.moveaxis(array, -1, -3) if given[-1] == 3 and given[-3:] != shape else array
    np.testing.assert_allclose(values(data), moved.reshape(items, *shape), rtol=1e-6)


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        ((32, 32), (1, 28, 28)),
        ((4, 32, 32), (1, 28, 28)),
        ((4, 28, 28), (3, 28, 28)),
        ((784,), (1, 28, 28)),
        ((4, 784), (1, 28, 28)),
        ((6,), VECTOR),
        ((3, 6), VECTOR),
        ((), VECTOR),
        ((0, 5), VECTOR),
    ],
)
def test_another_shape_is_refused_in_one_sentence(given: Any, shape: Any) -> None:
    with pytest.raises(DataError) as error:
        open_items(np.ones(given), shape)
    assert str(shape) in str(error.value)
    assert f"got shape {given}" in str(error.value)


@pytest.mark.parametrize("level", [0, 128, 255])
@pytest.mark.parametrize("kind", [np.uint8, np.int64])
def test_integer_pixels_and_float_pixels_mean_the_same(level: int, kind: Any) -> None:
    whole, share = np.full(GREY, level, kind), np.full(GREY, level / 255, np.float32)
    torch.testing.assert_close(values(open_items(whole, GREY)), values(open_items(share, GREY)))
    torch.testing.assert_close(values(open_items(torch.from_numpy(whole), GREY)), values(open_items(share, GREY)))


def test_several_items_are_opened_by_open_dataset() -> None:
    images = RANDOM.integers(0, 256, (4, 8, 6, 3), dtype=np.uint8)
    assert torch.equal(values(open_items(images, COLOUR)), values(open_dataset(images)))


def test_a_memory_map_is_read_in_batches_and_its_changes_are_noticed(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", RANDOM.integers(0, 256, (50, 8, 6), dtype=np.uint8))
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    for x, items in ((rows, 50), (rows[7], 1)):
        data = open_items(x, GREY)
        torch.testing.assert_close(values(data), torch.from_numpy(np.array(x)).reshape(items, *GREY).float() / 255)
    np.save(tmp_path / "rows.npy", np.zeros((50, 8, 6), np.uint8))
    with pytest.raises(DataError, match="must stay as it was"):
        values(data)


@pytest.mark.parametrize("array", [np.full(GREY, 256), np.full(GREY, -1), np.full(GREY, 1.5), np.full(GREY, np.nan)])
def test_pixels_out_of_range_are_refused(array: np.ndarray) -> None:
    with pytest.raises(DataError, match=r"^x: (integer pixels|float pixels|every number)"):
        open_items(array, GREY)


def test_names_paths_and_data_sets_are_opened_and_their_shape_is_checked(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", RANDOM.random((9, 5)))
    for source in (tmp_path / "rows.npy", {"name": str(tmp_path / "rows.npy")}, open_dataset(tmp_path / "rows.npy")):
        assert len(open_items(source, VECTOR)) == 9
        with pytest.raises(DataError, match=r"rows.npy must have items of shape \(4,\).*got \(5,\)"):
            open_items(source, (4,))


def test_objects_that_are_not_arrays_are_named() -> None:
    for wrong in (object(), None, [[1.0], [2.0, 3.0]]):
        with pytest.raises(DataError, match=r"^x must"):
            open_items(wrong, VECTOR)


def test_columns_of_a_data_frame_that_are_no_numbers_are_named() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "species": ["oak", "pine"], "b": [3.0, 4.0]})
    with pytest.raises(DataError, match=r"columns must be those of the training items.* 'species' is not"):
        open_items(frame, (3,))
    assert values(open_items(frame[["a", "b"]], (2,))).tolist() == [[1, 3], [2, 4]]
    with pytest.raises(DataError, match="pass rows as a data frame"):
        open_items({"a": 1.0, "b": 3.0}, (2,))


def test_labels_and_factors_are_one_for_each_item_or_one_for_all() -> None:
    batch = RANDOM.random((3, 5))
    assert open_items(batch, VECTOR, labels=[2, 0, 1]).labels.tolist() == [2, 0, 1]
    assert open_items(batch, VECTOR, labels=2).labels.tolist() == [2, 2, 2]
    for factors in ([2, 1], [[2, 1]] * 3):
        data = open_items(batch, VECTOR, factors=factors, factor_table=TABLE)
        # Scaled by the number of values in the data that the model was trained on.
        expected = torch.tensor([[1.0, 1 / 3]] * 3)
        torch.testing.assert_close(condition_table(data, "factors", 2), expected)
        table = condition_table(conditions_only(3, None, factors, TABLE), "factors", 2)
        torch.testing.assert_close(table, expected)
    assert condition_table(conditions_only(2, 1, None, None), "label", 3).tolist() == [[0, 1, 0], [0, 1, 0]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"labels": [1, 2]}, "labels must have one row for each of the 3 items"),
        ({"labels": 0.5}, "labels must be whole numbers"),
        ({"factors": [1, 2]}, "Pass a data set"),
        ({"factors": [3, 0], "factor_table": TABLE}, r"shape 0\.\.2, size 0\.\.3"),
        ({"factors": [[1], [1], [1]], "factor_table": TABLE}, "one code for each of the 2 factors"),
    ],
)
def test_labels_and_factors_that_do_not_fit_are_refused(options: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        open_items(RANDOM.random((3, 5)), VECTOR, **options)


def test_a_data_set_has_its_own_labels() -> None:
    with pytest.raises(DataError, match="labels and factors come from open_dataset"):
        open_items(open_dataset(RANDOM.random((3, 5))), VECTOR, labels=1)
