"""What a conditional model is told: labels as unit vectors, varying factors in [0, 1]."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vaescope.data import Dataset, open_dataset
from vaescope.data.arrays import from_array
from vaescope.data.conditions import condition_table, condition_width
from vaescope.data.dataset import Subset
from vaescope.errors import DataError, UnknownNameError

ROWS = np.random.default_rng(0).random((6, 3))
FACTORS = np.array([[0, 0, 0], [1, 0, 2], [2, 0, 4], [0, 0, 1], [1, 0, 3], [2, 0, 0]])


def labelled() -> Dataset:
    return from_array(ROWS, "labelled", labels=[2, 0, 1, 1, 0, 2])


def factored() -> Dataset:
    return from_array(ROWS, "factored", factors=FACTORS)


def test_a_label_is_a_unit_vector() -> None:
    assert condition_width(labelled(), "label") == 3
    table = condition_table(labelled(), "label", 3)
    assert table.tolist() == torch.eye(3)[[2, 0, 1, 1, 0, 2]].tolist()


def test_a_model_of_more_classes_takes_data_of_fewer() -> None:
    table = condition_table(labelled(), "label", 5)
    assert table.shape == (6, 5)
    assert table.argmax(1).tolist() == [2, 0, 1, 1, 0, 2]


def test_factors_are_scaled_to_the_unit_interval_and_constant_ones_left_out() -> None:
    assert condition_width(factored(), "factors") == 2
    table = condition_table(factored(), "factors", 2)
    np.testing.assert_allclose(table, FACTORS[:, [0, 2]] / [2, 4])


def test_of_the_sprites_five_factors_vary() -> None:
    data = open_dataset("dsprites-small")
    width = condition_width(data, "factors")
    table = condition_table(data, "factors", width)
    assert table.shape == (len(data), width)
    assert width == sum(size > 1 for size in data.factor_table.sizes)
    assert table.min(0).values.tolist() == [0.0] * width
    assert table.max(0).values.tolist() == [1.0] * width


@pytest.mark.parametrize(("data", "kind", "width"), [(labelled(), "label", 3), (factored(), "factors", 2)])
def test_a_subset_has_the_rows_of_the_whole(data: Dataset, kind: str, width: int) -> None:
    whole = condition_table(data, kind, width)
    for part in data.split(2, seed=1):
        assert isinstance(part, Subset)
        assert torch.equal(condition_table(part, kind, width), whole[part.index])


@pytest.mark.parametrize("kind", ["label", "factors"])
def test_data_without_what_is_told_are_named(kind: str) -> None:
    what = {"label": "labels", "factors": "factors"}[kind]
    for ask in (lambda: condition_width(from_array(ROWS, "bare"), kind), lambda: _table("bare", kind)):
        with pytest.raises(DataError, match=rf"bare must have {what} to condition on, it has none\."):
            ask()


def _table(name: str, kind: str) -> torch.Tensor:
    return condition_table(from_array(ROWS, name), kind, 2)


def test_data_with_other_conditions_than_the_model_was_built_for_are_named() -> None:
    with pytest.raises(DataError, match=r"labelled must have conditions of at most 2 numbers, .* got 3"):
        condition_table(labelled(), "label", 2)
    with pytest.raises(DataError, match=r"factored must have 3 factors that vary, .* got 2"):
        condition_table(factored(), "factors", 3)


def test_factors_that_do_not_vary_are_named() -> None:
    data = from_array(ROWS, "still", factors=np.zeros((6, 2), int))
    with pytest.raises(DataError, match="still must have a factor that varies to condition on, none does"):
        condition_width(data, "factors")


def test_an_unknown_kind_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="condition must be one of factors, label; got 'colour'"):
        condition_width(labelled(), "colour")
