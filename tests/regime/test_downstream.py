"""Logistic regressions on the latents of each type: accuracies, targets that cannot be predicted, and bad input."""

from __future__ import annotations

import importlib
from dataclasses import FrozenInstanceError
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from vaescope.codes import Representation
from vaescope.errors import ConfigurationError, DataError, UnknownNameError
from vaescope.numerics import counter
from vaescope.regime.downstream import Downstream, downstream

ITEMS = 900
TYPES = ("active", "active", "mixed", "passive", "passive")
GENERATOR = np.random.default_rng(0)
FACTORS = np.stack([GENERATOR.integers(0, 3, ITEMS), GENERATOR.integers(0, 5, ITEMS)], axis=1)


def polarised() -> tuple[np.ndarray, np.ndarray]:
    """Each factor in an active latent; the second also, half of the time, in the mixed one.

    The passive means repeat the first factor a hundred times smaller, as the thesis found them to.
    """
    first, second = (FACTORS - FACTORS.mean(0)).T
    half = GENERATOR.random(ITEMS) < 0.5
    mean = np.stack([first, second, np.where(half, second, 0), first / 100, -first / 100], axis=1)
    deviation = np.stack([np.full(ITEMS, 0.05)] * 2 + [np.where(half, 0.05, 1)] + [np.ones(ITEMS)] * 2, axis=1)
    return mean, mean + deviation * GENERATOR.normal(size=mean.shape)


MEAN, SAMPLE = polarised()


@pytest.fixture(scope="module")
def result() -> Downstream:
    return downstream((MEAN, SAMPLE), TYPES, FACTORS, names=["shape", "scale"], seed=3)


def test_accuracies_by_type_follow_the_polarised_regime(result: Downstream) -> None:
    sampled = {group: result.average("sampled", group) for group in ("full", "active", "mixed", "passive")}
    assert sampled["full"] > 0.97
    assert sampled["active"] > 0.97
    assert sampled["passive"] == pytest.approx(result.guess("majority"), abs=0.06)
    assert result.guess("majority") + 0.05 < sampled["mixed"] < 0.8
    assert result.average("sampled", "active+mixed") == pytest.approx(sampled["full"], abs=0.02)


def test_passive_means_can_be_informative_when_passive_samples_are_not(result: Downstream) -> None:
    found = {
        entry.representation: entry.accuracy
        for entry in result.entries
        if (entry.target, entry.combination) == ("shape", "passive")
    }
    assert found["mean"] > 0.99
    assert found["sampled"] < 0.5


def test_accuracies_equal_scikit_learn_on_the_same_split(result: Downstream) -> None:
    order = counter.permutation(torch.tensor(3), "downstream", torch.tensor(0), ITEMS).numpy()
    train, test = order[:600], order[600:]
    assert (result.train_items, result.test_items) == (600, 300)
    for group, latents in (("active", [0, 1]), ("mixed+passive", [2, 3, 4])):
        scaler = StandardScaler().fit(SAMPLE[train][:, latents])
        model = LogisticRegression(max_iter=1000).fit(scaler.transform(SAMPLE[train][:, latents]), FACTORS[train, 1])
        expected = model.score(scaler.transform(SAMPLE[test][:, latents]), FACTORS[test, 1])
        [entry] = [
            entry
            for entry in result.entries
            if (entry.target, entry.representation, entry.combination) == ("scale", "sampled", group)
        ]
        assert entry.accuracy == pytest.approx(expected)
        assert entry.latents == tuple(latents)
    majority = np.bincount(FACTORS[train, 1]).argmax()
    assert result.targets[1].majority == pytest.approx((FACTORS[test, 1] == majority).mean())
    assert [target.uniform for target in result.targets] == pytest.approx([1 / 3, 1 / 5])


def test_the_seed_decides_the_split_and_nothing_else_is_random(result: Downstream) -> None:
    assert downstream((MEAN, SAMPLE), TYPES, FACTORS, names=["shape", "scale"], seed=3) == result
    other = downstream((MEAN, SAMPLE), TYPES, FACTORS, names=["shape", "scale"], seed=4)
    assert other.entries != result.entries


def test_arrays_and_a_representation_give_the_same_result(result: Downstream) -> None:
    mean, sample = torch.from_numpy(MEAN), torch.from_numpy(SAMPLE)
    codes = Representation(mean, torch.ones_like(mean), sample, torch.from_numpy(FACTORS))
    found = downstream(codes, SimpleNamespace(types=TYPES), seed=3)
    assert [target.name for target in found.targets] == ["factor 0", "factor 1"]
    assert [entry.accuracy for entry in found.entries] == [entry.accuracy for entry in result.entries]


def test_factors_and_labels_of_the_codes_are_the_default_targets() -> None:
    factors, labels = torch.from_numpy(FACTORS[:, :1]), torch.from_numpy(FACTORS[:, 1])
    codes = Representation(torch.from_numpy(MEAN), torch.ones(MEAN.shape), torch.from_numpy(SAMPLE), factors, labels)
    found = downstream(codes, TYPES, train_items=100, test_items=50)
    assert [target.name for target in found.targets] == ["factor", "label"]
    assert (found.train_items, found.test_items) == (100, 50)
    given = downstream(codes, TYPES, FACTORS[:, 1], train_items=100, test_items=50)
    assert [target.name for target in given.targets] == ["target"]
    accuracies = [entry.accuracy for entry in found.entries if entry.target == "label"]
    assert [entry.accuracy for entry in given.entries] == accuracies


def test_the_thesis_protocol_chooses_a_strength_by_cross_validation() -> None:
    found = downstream((MEAN, SAMPLE), TYPES[:2] + ("passive",) * 3, FACTORS[:, 0], protocol="thesis", train_items=150)
    strengths = {entry.strength for entry in found.entries}
    assert strengths <= set(np.logspace(-4, 4, 10).tolist())
    assert len(strengths) > 1
    assert found.average("sampled", "active") > 0.97
    assert {entry.note for entry in found.entries} == {""}


def test_a_fit_that_does_not_converge_gets_a_note_and_no_warning(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    module = importlib.import_module("vaescope.regime.downstream")
    monkeypatch.setattr(module, "MAX_ITERATIONS", 2)
    found = downstream((MEAN, SAMPLE), TYPES, FACTORS[:, 1], train_items=100)
    assert any("converge in 2 iterations" in row["note"] for row in found.rows())
    assert not recwarn.list


def test_a_constant_latent_predicts_the_majority() -> None:
    mean = MEAN.copy()
    mean[:, 3:] = 0.1
    found = downstream((mean, SAMPLE), TYPES, FACTORS[:, 0])
    assert found.average("mean", "passive") == pytest.approx(found.guess("majority"))


def test_a_target_that_cannot_be_predicted_gets_a_note() -> None:
    rare = FACTORS[:, 0].copy()
    rare[5] = 9
    found = downstream((MEAN, SAMPLE), TYPES, np.stack([FACTORS[:, 0], rare, np.zeros(ITEMS, int)], axis=1))
    assert {entry.target for entry in found.entries} == {"target 0"}
    notes = [target.note for target in found.targets]
    assert notes[0] == ""
    assert "target 1 must have at least 2 training items" in notes[1]
    assert "of class 9 (1 of 900 items)" in notes[1]
    assert "target 2 is 0 for all items" in notes[2]
    assert "2 of 3 targets could not be predicted" in found.summary()
    assert [row["note"] for row in found.rows()[-2:]] == notes[1:]
    with pytest.raises(DataError, match=r"no target .* 2 training items"):
        downstream((MEAN, SAMPLE), TYPES, rare)


def test_the_thesis_protocol_needs_an_item_of_each_class_for_each_fold() -> None:
    with pytest.raises(DataError, match=r"5 training items .* got \d of class \d"):
        downstream((MEAN[:24], SAMPLE[:24]), TYPES, FACTORS[:24, 1], protocol="thesis")


def test_the_result_is_frozen_and_flat(result: Downstream) -> None:
    with pytest.raises(FrozenInstanceError):
        result.seed = 1
    rows = result.rows()
    assert len(rows) == 2 * 2 * 7
    assert {frozenset(row) for row in rows} == {frozenset(rows[0])}
    assert all(isinstance(cell, str | int | float | None) for row in rows for cell in row.values())
    assert result.average("mean", "nothing") is None
    assert "uniform guess 0.267" in result.summary()


@pytest.mark.parametrize(
    ("targets", "sentence"),
    [
        (None, "factors or labels.* Pass targets"),
        (FACTORS[:10], "targets .* 900 items"),
        (FACTORS + 0.5, r"targets .* \d\.5 for item 0"),
        (FACTORS.astype(str), "targets .*numbers"),
    ],
)
def test_bad_targets_are_refused(targets: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        downstream((MEAN, SAMPLE), TYPES, targets)


def test_bad_options_are_named() -> None:
    with pytest.raises(UnknownNameError, match="fast, thesis; got 'slow'"):
        downstream((MEAN, SAMPLE), TYPES, FACTORS, protocol="slow")
    with pytest.raises(ConfigurationError, match="seed"):
        downstream((MEAN, SAMPLE), TYPES, FACTORS, seed=-1)
    with pytest.raises(DataError, match=r"names .* 2 .*\['a', 'a'\]"):
        downstream((MEAN, SAMPLE), TYPES, FACTORS, names=["a", "a"])
    with pytest.raises(DataError, match="3 items, got 2"):
        downstream((MEAN[:2], SAMPLE[:2]), TYPES, FACTORS[:2])
    with pytest.raises(DataError, match="5 latents, got 2"):
        downstream((MEAN, SAMPLE), TYPES[:2], FACTORS)
