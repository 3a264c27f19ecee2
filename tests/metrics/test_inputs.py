"""Checked codes and factors: what is refused and what is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from vaescope.codes import Representation
from vaescope.errors import ConfigurationError, DataError
from vaescope.metrics import metric_inputs, mig
from vaescope.metrics.inputs import count_varying
from vaescope.metrics.prediction import dci
from vaescope.regime import variable_types

ITEMS = 60


def factors(items: int = ITEMS) -> np.ndarray:
    place = np.arange(items)
    return np.stack([place % 2, place % 3], 1)


def codes(items: int = ITEMS, latents: int = 3) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((items, latents))


def representation(variances: tuple[float, ...] = (0.01, 1.0, 0.01), **parts: Any) -> Representation:
    mean = torch.from_numpy(codes(latents=len(variances))) * (torch.tensor(variances) < 0.5)
    return Representation(mean, torch.tensor(variances).expand(mean.shape).double(), mean, **parts)


def test_a_factor_that_does_not_vary_is_named() -> None:
    table = np.column_stack([factors(), np.full(ITEMS, 4)])
    with pytest.raises(DataError, match="'colour' is 4"):
        metric_inputs(codes(), table, names=("shape", "scale", "colour"))


def test_codes_and_factors_of_different_lengths_are_refused() -> None:
    with pytest.raises(DataError, match=r"\(50, 2\) and \(60, 3\)"):
        metric_inputs(codes(), factors(50))


@pytest.mark.parametrize("shape", [(ITEMS,), (ITEMS, 3, 1)])
def test_codes_must_be_a_table(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="codes must be a table"):
        metric_inputs(np.ones(shape), factors())


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["codes", "factors"])
def test_a_number_that_is_not_finite_is_located(name: str, value: float) -> None:
    given = {"codes": codes(), "factors": factors().astype(float)}
    given[name][7, 1] = value
    with pytest.raises(DataError, match=rf"{name} must be finite.*item 7"):
        metric_inputs(**given)


@pytest.mark.parametrize("name", ["codes", "factors"])
@pytest.mark.parametrize("kind", ["U5", complex])
def test_values_that_are_not_numbers_are_refused(name: str, kind: Any) -> None:
    given: dict[str, Any] = {"codes": codes(), "factors": factors()}
    given[name] = given[name].astype(kind)
    with pytest.raises(DataError, match=rf"{name} must hold real numbers"):
        metric_inputs(**given)


def test_a_class_with_fewer_examples_than_needed_is_named() -> None:
    data = metric_inputs(codes(), np.column_stack([factors()[:, 0], np.r_[np.zeros(59), 1]]), names=("shape", "scale"))
    data.require_examples(1)
    with pytest.raises(DataError, match="class 1 of 'scale' has 1"):
        data.require_examples(2)


def test_a_continuous_factor_is_refused_by_name_where_classes_are_needed() -> None:
    table = np.column_stack([factors()[:, 0], np.linspace(0, 1, ITEMS)])
    with pytest.raises(DataError, match="'height' is continuous"):
        _ = metric_inputs(codes(), table, names=("shape", "height")).classes
    with pytest.raises(DataError, match="'height' is continuous"):
        dci(codes(), table, names=("shape", "height"))


@pytest.mark.parametrize(("shape", "table"), [((1, 3), (1, 2)), ((ITEMS, 0), (ITEMS, 2)), ((ITEMS, 3), (ITEMS, 0))])
def test_nothing_to_compare_is_refused(shape: tuple[int, int], table: tuple[int, int]) -> None:
    with pytest.raises(DataError, match=r"at least 2 items|\(60, 0\)"):
        metric_inputs(np.ones(shape), np.ones(table))


def test_names_must_be_as_many_as_factors() -> None:
    with pytest.raises(DataError, match="2 factors, got 1"):
        metric_inputs(codes(), factors(), names=("shape",))
    whole = representation(factors=torch.from_numpy(factors()))
    with pytest.raises(DataError, match="2 factors, got 3"):
        metric_inputs(whole, names=("a", "b", "c"))


def test_two_factors_of_one_name_are_refused() -> None:
    with pytest.raises(DataError, match=r"'shape', 'shape'"):
        metric_inputs(codes(), factors(), names=("shape", "shape"))


def test_varying_factors_are_counted_and_labels_without_them() -> None:
    table = torch.from_numpy(factors())
    still = torch.zeros(ITEMS, dtype=torch.int64)
    assert count_varying(table, None) == 2
    assert count_varying(torch.column_stack([table, still]), table[:, 0]) == 2
    assert count_varying(None, table[:, 0]) == 1
    assert count_varying(None, still) == count_varying(None, None) == 0


def test_codes_without_factors_are_refused() -> None:
    for given in (codes(), representation()):
        with pytest.raises(DataError, match="Pass factors"):
            metric_inputs(given)


def test_a_representation_uses_the_factors_that_vary() -> None:
    table = np.column_stack([np.zeros(ITEMS, int), factors()])
    data = metric_inputs(representation(factors=torch.from_numpy(table)), names=("colour", "shape", "scale"))
    assert data.names == ("shape", "scale")
    np.testing.assert_array_equal(data.factors, factors())
    assert metric_inputs(representation(factors=torch.from_numpy(table))).names == ("factor 1", "factor 2")


def test_a_representation_without_factors_uses_its_labels() -> None:
    data = metric_inputs(representation(labels=torch.from_numpy(factors()[:, 1])))
    assert data.names == ("label",)
    np.testing.assert_array_equal(data.factors[:, 0], factors()[:, 1])


def test_factors_that_are_passed_override_those_of_the_representation() -> None:
    whole = representation(factors=torch.from_numpy(factors()))
    np.testing.assert_array_equal(metric_inputs(whole, factors()[:, :1]).factors, factors()[:, :1])


def test_the_codes_of_a_representation_are_its_means() -> None:
    whole = representation(factors=torch.from_numpy(factors()))
    np.testing.assert_array_equal(metric_inputs(whole).codes, whole.mean.numpy())


def test_gaps_between_class_numbers_are_closed() -> None:
    table = np.column_stack([10 * factors()[:, 0] - 4, factors()[:, 1] ** 2])
    data = metric_inputs(codes(), table)
    np.testing.assert_array_equal(data.classes, factors())
    assert mig(codes(), table) == mig(codes(), factors())


def test_classes_are_renumbered_without_gaps_after_rows_are_selected() -> None:
    data = metric_inputs(codes(), factors())
    rows = np.flatnonzero(factors()[:, 1] != 1)
    assert set(data.rows(rows).classes[:, 1]) == {0, 1}
    np.testing.assert_array_equal(data.rows(rows).codes, codes()[rows])


def test_a_split_is_disjoint_and_keeps_class_numbers() -> None:
    data = metric_inputs(np.arange(ITEMS)[:, None], np.arange(ITEMS))
    learned, tested = data.split(30, 15, seed=3)
    assert (len(learned), len(tested)) == (30, 15)
    assert not set(learned.codes[:, 0]) & set(tested.codes[:, 0])
    np.testing.assert_array_equal(tested.codes, tested.factors)
    np.testing.assert_array_equal(data.split(30, 15, seed=3)[0].codes, learned.codes)


def test_a_split_of_few_items_keeps_the_proportion() -> None:
    learned, tested = metric_inputs(codes(), factors()).split(10_000, 5_000, seed=0)
    assert (len(learned), len(tested)) == (40, 20)


def test_passive_latents_of_a_representation_are_left_out() -> None:
    whole = representation(factors=torch.from_numpy(factors()))
    assert variable_types(whole).types == ("active", "passive", "active")
    data = metric_inputs(whole, exclude="passive")
    assert data.latents == (0, 2)
    np.testing.assert_array_equal(data.codes, whole.mean.numpy()[:, [0, 2]])
    assert mig(whole, exclude="passive").latents == (0, 2)
    assert len(mig(whole, exclude="passive").matrix) == 2


def test_types_can_be_given_with_plain_codes() -> None:
    types = ("mixed", "active", "passive")
    assert metric_inputs(codes(), factors(), exclude="passive", types=types).latents == (0, 1)
    assert metric_inputs(codes(), factors(), exclude="mixed", types=types).latents == (1, 2)


def test_types_that_are_given_override_those_of_the_representation() -> None:
    whole = representation(factors=torch.from_numpy(factors()))
    assert metric_inputs(whole, exclude="passive", types=["passive", "active", "active"]).latents == (1, 2)


def test_excluding_from_plain_codes_needs_types() -> None:
    with pytest.raises(ConfigurationError, match="types"):
        metric_inputs(codes(), factors(), exclude="passive")


def test_an_unknown_type_to_exclude_is_named() -> None:
    with pytest.raises(ConfigurationError, match="'dead'"):
        metric_inputs(codes(), factors(), exclude="dead", types=["active"] * 3)


def test_types_of_another_number_of_latents_are_refused() -> None:
    with pytest.raises(DataError, match="3 latents, got 2"):
        metric_inputs(codes(), factors(), exclude="passive", types=["active", "passive"])


def test_a_representation_of_only_passive_latents_has_collapsed() -> None:
    whole = representation((1.0, 1.0), factors=torch.from_numpy(factors()))
    with pytest.raises(DataError, match=r"passive.*collapsed"):
        metric_inputs(whole, exclude="passive")
    with pytest.raises(DataError, match=r"active.*another type"):
        metric_inputs(codes(), factors(), exclude="active", types=["active"] * 3)


def test_lists_tensors_and_booleans_are_accepted() -> None:
    expected = metric_inputs(codes(), factors())
    for given in (codes().tolist(), torch.from_numpy(codes()).requires_grad_()):
        np.testing.assert_array_equal(metric_inputs(given, torch.from_numpy(factors())).codes, expected.codes)
    truth = metric_inputs(codes(), factors()[:, 0] == 1)
    np.testing.assert_array_equal(truth.classes[:, 0], factors()[:, 0])
