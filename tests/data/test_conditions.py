"""Conditions of a conditional model: one-hot labels, varying factors in [0, 1]."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from vaescope.data import Dataset, open_dataset
from vaescope.data.arrays import from_array
from vaescope.data.conditions import condition_table, condition_width, conditions_of
from vaescope.data.dataset import Subset
from vaescope.errors import DataError, UnknownNameError

ROWS = np.random.default_rng(0).random((6, 3))
FACTORS = np.array([[0, 0, 0], [1, 0, 2], [2, 0, 4], [0, 0, 1], [1, 0, 3], [2, 0, 0]])


def labelled() -> Dataset:
    return from_array(ROWS, "labelled", labels=[2, 0, 1, 1, 0, 2])


def factored() -> Dataset:
    return from_array(ROWS, "factored", factors=FACTORS)


def test_a_label_is_one_hot() -> None:
    assert condition_width(labelled(), "label") == 3
    table = condition_table(labelled(), "label", 3)
    assert table.tolist() == torch.eye(3)[[2, 0, 1, 1, 0, 2]].tolist()


def test_a_model_with_more_classes_accepts_data_with_fewer() -> None:
    table = condition_table(labelled(), "label", 5)
    assert table.shape == (6, 5)
    assert table.argmax(1).tolist() == [2, 0, 1, 1, 0, 2]


def test_varying_factors_are_scaled_to_the_unit_interval_and_constant_ones_dropped() -> None:
    assert condition_width(factored(), "factors") == 2
    table = condition_table(factored(), "factors", 2)
    np.testing.assert_allclose(table, FACTORS[:, [0, 2]] / [2, 4])


def test_dsprites_conditions_cover_every_varying_factor() -> None:
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


def test_the_conditions_of_a_model_follow_what_it_declares() -> None:
    model = SimpleNamespace(condition="label", condition_width=4)
    conditions = conditions_of(model, labelled())
    assert conditions is not None
    assert torch.equal(conditions, condition_table(labelled(), "label", 4))


@pytest.mark.parametrize("model", [object(), SimpleNamespace(condition=None, condition_width=0)])
def test_an_unconditional_model_has_no_conditions(model: object) -> None:
    assert conditions_of(model, from_array(ROWS, "bare")) is None


@pytest.mark.parametrize(("kind", "needed"), [("label", "labels"), ("factors", "factors")])
def test_data_without_labels_or_factors_are_an_error_that_names_them(kind: str, needed: str) -> None:
    bare = from_array(ROWS, "bare")
    for action in (lambda: condition_width(bare, kind), lambda: condition_table(bare, kind, 2)):
        with pytest.raises(DataError, match=f"^bare must have {needed} "):
            action()


@pytest.mark.parametrize(
    ("data", "kind", "width", "found"), [(labelled(), "label", 2, 3), (factored(), "factors", 3, 2)]
)
def test_data_with_another_condition_width_than_the_model_are_an_error(
    data: Dataset, kind: str, width: int, found: int
) -> None:
    with pytest.raises(DataError, match=rf"^{data.name} must have .*\b{width}\b.* got {found}\b"):
        condition_table(data, kind, width)


def test_factors_that_are_all_constant_are_an_error() -> None:
    with pytest.raises(DataError, match=r"^still must have a factor that varies"):
        condition_width(from_array(ROWS, "still", factors=np.zeros((6, 2), int)), "factors")


def test_an_unknown_kind_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="factors, label; got 'colour'"):
        condition_width(labelled(), "colour")
