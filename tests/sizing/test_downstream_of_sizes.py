"""Predicting factors and labels from codes: training items, test items, and accuracies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from vaescope.data import Dataset
from vaescope.data.arrays import from_array
from vaescope.runs import Run
from vaescope.sizing import downstream
from vaescope.sizing.downstream import Prediction, PredictionTarget, score, targets_of

NOISE = np.random.default_rng(0)
CLUSTER = NOISE.integers(0, 3, 400)
COIN = NOISE.integers(0, 2, 400)
# The first number of an item is its place in the set.
ROWS = np.stack([np.arange(400), NOISE.normal(size=400)], axis=1)


def places(data: Dataset) -> np.ndarray:
    return data.batch(torch.arange(len(data)))[:, 0].long().numpy()


def runs_that_hold(*columns: np.ndarray | None) -> Any:
    """Runs whose code is noise, next to a column if one is given."""
    return [SimpleNamespace(model=SimpleNamespace(column=column)) for column in columns]


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Encodes the runs above, and lists the items that were."""
    seen: list[np.ndarray] = []

    def encode(model: Any, data: Dataset, device: Any, progress: bool) -> Any:
        assert progress is False
        seen.append(places(data))
        codes = np.random.default_rng(len(seen)).normal(size=(len(data), 2))
        if model.column is not None:
            codes[:, 1] = model.column[places(data)]
        return SimpleNamespace(mean=torch.from_numpy(codes))

    monkeypatch.setattr(downstream, "encode", encode)
    return seen


def predict(runs: list[Run], data: Dataset, items: int, progress: bool | None = None) -> Prediction:
    training, held_out = data.split(0.25)
    return downstream.predict(runs, training.draw(items), held_out.draw(items // 2), device="cpu", progress=progress)


def test_codes_that_hold_the_label_predict_it_perfectly(encoded: list[np.ndarray]) -> None:
    found = predict(runs_that_hold(CLUSTER, None, CLUSTER), from_array(ROWS, labels=CLUSTER), 1000)
    assert found.targets == ("label",)
    assert found.accuracies[0] == found.accuracies[2] == 1
    assert found.accuracies[1] < 0.6


def test_the_accuracy_is_the_mean_over_targets(encoded: list[np.ndarray]) -> None:
    both = np.stack([CLUSTER, COIN], axis=1)
    found = predict(runs_that_hold(2 * CLUSTER + COIN), from_array(ROWS, factors=both), 1000)
    assert found.accuracies == (1.0,)
    found = predict(runs_that_hold(CLUSTER), from_array(ROWS, factors=both), 1000)
    assert found.accuracies[0] == pytest.approx(0.75, abs=0.1)


def test_noise_predicts_as_well_as_the_majority_guess(encoded: list[np.ndarray]) -> None:
    rare = (np.random.default_rng(2).random(4000) < 0.1).astype(np.int64)
    data = from_array(np.arange(8000).reshape(4000, 2) / 2, labels=rare)
    found = predict(runs_that_hold(None), data, 10_000)
    held_out = data.split(0.25)[1].labels
    assert held_out is not None
    assert found.majority == pytest.approx(1 - float(held_out.double().mean()))
    assert found.accuracies[0] == pytest.approx(found.majority, abs=0.02)


def test_the_majority_guess_is_the_commonest_value_that_was_learned() -> None:
    assert PredictionTarget(np.array([1, 1, 0]), np.array([0, 0, 0, 1])).majority == 0.25


def test_rare_classes_do_not_spoil_the_trees() -> None:
    codes = np.random.default_rng(0).normal(size=(6000, 3))
    bins = np.clip((codes[:, 0] * 10 / 6 + 5).astype(int), 0, 9)
    assert score(codes[:4000], codes[4000:], PredictionTarget(bins[:4000], bins[4000:])) > 0.95


@pytest.mark.parametrize(("items", "learned", "tested"), [(1000, 300, 100), (60, 60, 30), (2, 2, 1)])
def test_predictors_learn_from_training_items_and_are_tested_on_held_out_items(
    items: int, learned: int, tested: int, encoded: list[np.ndarray]
) -> None:
    data = from_array(ROWS, labels=np.arange(400) % 20)
    predict(runs_that_hold(None), data, items)
    assert [len(part) for part in encoded] == [learned, tested]
    for part, side in zip(encoded, data.split(0.25), strict=True):
        assert set(part) <= set(side.index.tolist())
        # Drawn from the whole of a side, not from its beginning.
        assert items != 60 or part.max() > 350


def test_a_label_that_repeats_a_factor_counts_once() -> None:
    factors = np.stack([CLUSTER, COIN], axis=1)
    training, held_out = from_array(ROWS, factors=factors, labels=COIN).split(0.25)
    assert list(targets_of(training, held_out)) == ["factor 0", "factor 1"]
    named = from_array(ROWS, factors=factors, factor_names=("label", "b"), labels=CLUSTER + COIN)
    assert list(targets_of(*named.split(0.25))) == ["label", "b", "class label"]


def test_columns_stay_aligned_with_their_items() -> None:
    training, held_out = from_array(ROWS, factors=np.stack([COIN, CLUSTER], axis=1), labels=np.arange(400)).split(0.25)
    found = targets_of(training, held_out)
    np.testing.assert_array_equal(found["factor 1"].learned, CLUSTER[training.index])
    np.testing.assert_array_equal(found["factor 1"].tested, CLUSTER[held_out.index])
    np.testing.assert_array_equal(found["label"].tested, held_out.index)


def test_constant_factors_are_no_targets(encoded: list[np.ndarray]) -> None:
    factors = np.stack([COIN, np.zeros(400, np.int64)], axis=1)
    assert predict(runs_that_hold(COIN), from_array(ROWS, factors=factors), 1000).targets == ("factor 0",)
    same = from_array(ROWS, labels=np.zeros(400, np.int64))
    assert predict(runs_that_hold(COIN), same, 1000) == Prediction((), (), None)


@pytest.mark.parametrize(("progress", "shown"), [(None, None), (True, True), (False, False)])
def test_a_progress_bar_is_shown_for_long_tasks_or_on_request(
    progress: bool | None, shown: bool | None, encoded: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    bars: list[tuple[str, int | None, bool | None]] = []

    @contextmanager
    def bar(title: str, total: int | None, show: bool | None = None, *, unit: str) -> Iterator[Any]:
        bars.append((title, total, show))
        yield lambda done, words="": None

    monkeypatch.setattr(downstream, "progress_bar", bar)
    data, runs = from_array(ROWS, labels=COIN), runs_that_hold(COIN, None)
    predict(runs, data, 100, progress)
    monkeypatch.setattr(downstream, "LONG_TASK", 0)
    predict(runs, data, 100, progress)
    assert bars == [("predicting factors of array", 2, False), ("predicting factors of array", 2, shown)]
