"""Modularity and explicitness: the definitions, scikit-learn's areas, and their invariances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from reference import reference_modularity
from vaescope.errors import DataError
from vaescope.metrics.inputs import metric_inputs
from vaescope.metrics.mutual_information import modularity
from vaescope.metrics.prediction import explicitness, roc_area


def world(items: int = 2000, seed: int = 0, classes: tuple[int, ...] = (3, 6, 8)) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.stack([generator.integers(0, count, items) for count in classes], 1)


def mixed(factors: np.ndarray, seed: int = 0, latents: int = 5) -> np.ndarray:
    generator = np.random.default_rng((seed, 1))
    weights = generator.standard_normal((factors.shape[1], latents))
    return factors @ weights + generator.standard_normal((len(factors), latents))


def one_hot(factors: np.ndarray) -> np.ndarray:
    return np.concatenate([np.eye(int(column.max()) + 1)[column] for column in factors.T], 1)


@pytest.mark.parametrize("seed", range(3))
def test_modularity_follows_its_definition(seed: int) -> None:
    factors = world(400, seed)
    codes = np.column_stack([mixed(factors, seed), np.ones(400)])
    score, silent = reference_modularity.modularity(codes, factors)
    found = modularity(codes, factors)
    assert found.score == pytest.approx(score, abs=1e-12)
    assert found.parts == {"uninformative": silent}
    assert silent == 1


def test_perfect_codes_are_modular_and_so_are_duplicates() -> None:
    factors = world(20_000)
    assert modularity(np.column_stack([factors, -2.0 * factors[:, 0]]), factors).score == pytest.approx(1, abs=1e-4)


def test_a_latent_that_encodes_two_factors_equally_is_not_modular() -> None:
    factors = world(20_000, classes=(3, 3))
    assert modularity(factors[:, :1] + 3.0 * factors[:, 1:], factors).score == pytest.approx(0, abs=1e-3)


def test_codes_that_do_not_vary_score_nothing() -> None:
    found = modularity(np.ones((100, 2)), world(100))
    assert (found.score, found.parts["uninformative"]) == (0, 2)


def test_modularity_takes_continuous_factors() -> None:
    factors = np.random.default_rng(0).random((5000, 2))
    assert modularity(factors, factors).score > 0.99


def test_modularity_of_a_single_factor_is_refused() -> None:
    with pytest.raises(DataError, match="at least 2"):
        modularity(np.eye(6), np.arange(6))


@settings(max_examples=25, deadline=None)
@given(
    order=st.permutations(range(5)),
    powers=st.lists(st.integers(-8, 8), min_size=5, max_size=5),
    signs=st.integers(0, 31),
)
def test_modularity_does_not_depend_on_order_sign_or_scale(order: list[int], powers: list[int], signs: int) -> None:
    factors = world(300)
    codes = mixed(factors)
    scales = np.array([2.0**power * (1 - 2 * (signs >> place & 1)) for place, power in enumerate(powers)])
    moved = modularity((codes * scales)[:, order], factors)
    assert moved.score == pytest.approx(modularity(codes, factors).score, abs=1e-9)


def test_explicitness_is_the_mean_area_of_each_class() -> None:
    factors = world(900, classes=(3, 5))
    data = metric_inputs(mixed(factors), factors)
    learned, tested = data.split(10_000, 5_000, 0)
    mean, spread = learned.codes.mean(0), learned.codes.std(0)
    rows = [(part.codes - mean) / spread for part in (learned, tested)]
    areas = []
    for known, true in zip(learned.classes.T, tested.classes.T, strict=True):
        chances = LogisticRegression(max_iter=1000).fit(rows[0], known).predict_proba(rows[1])
        own = [
            reference_modularity.area(chances[:, label].tolist(), (true == label).tolist())
            for label in range(int(known.max()) + 1)
        ]
        areas.append(sum(own) / len(own))
    found = explicitness(data.codes, factors)
    assert found.by_factor == pytest.approx(areas, abs=1e-9)
    assert found.score == pytest.approx(sum(areas) / 2, abs=1e-9)
    assert found.parts == {"above_chance": pytest.approx(sum(areas) - 1, abs=1e-9), "classes_left_out": 0}


def test_middle_values_of_an_ordered_factor_are_explicit_too() -> None:
    """One line against the rest could not rank them; one regression over all values can."""
    factors = np.arange(6).repeat(300)
    codes = factors[:, None] + 0.1 * np.random.default_rng(0).standard_normal((1800, 1))
    assert explicitness(codes, factors).score > 0.95


def test_the_area_is_that_of_scikit_learn_with_ties() -> None:
    generator = np.random.default_rng(0)
    scores, positive = np.round(generator.standard_normal(200), 1), generator.random(200) < 0.3
    assert roc_area(scores, positive) == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)


def test_classes_that_can_be_decoded_are_fully_explicit() -> None:
    factors = world(1500)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((17, 17)))[0]
    assert explicitness(one_hot(factors) @ turn, factors).score == pytest.approx(1, abs=1e-9)


def test_noise_is_as_explicit_as_chance() -> None:
    noise = np.random.default_rng(1).standard_normal((6000, 4))
    # Areas of 2,000 items with 250 or more of a class have a standard error below .02; 17 are averaged.
    found = explicitness(noise, world(6000))
    assert found.score == pytest.approx(0.5, abs=0.02)
    assert found.parts["above_chance"] == pytest.approx(0, abs=0.04)


def test_explicitness_does_not_depend_on_order_sign_or_scale() -> None:
    factors = world(600)
    codes = mixed(factors)
    moved = explicitness((codes * [1e-3, -1e3, 2.0, -1.0, 1e5])[:, [4, 0, 3, 1, 2]], factors)
    assert moved.score == pytest.approx(explicitness(codes, factors).score, abs=1e-4)


def test_classes_that_are_missing_by_chance_are_counted() -> None:
    factors = np.r_[np.zeros(50), np.ones(50), 2, 2].astype(int)
    codes = np.random.default_rng(0).standard_normal((102, 2))
    counts = {explicitness(codes, factors, seed=seed).parts["classes_left_out"] for seed in range(20)}
    assert counts == {0, 1}


def test_explicitness_of_a_continuous_factor_is_refused_by_name() -> None:
    with pytest.raises(DataError, match="'height' is continuous"):
        explicitness(np.eye(10), np.linspace(0, 1, 10), names=("height",))


def test_explicitness_of_a_class_with_a_single_example_is_refused() -> None:
    with pytest.raises(DataError, match=r"class 1 of 'factor 0' has 1"):
        explicitness(np.eye(10), np.r_[np.zeros(9), 1])


def test_explicitness_without_a_class_in_both_sets_is_refused() -> None:
    codes, factors = np.arange(6.0)[:, None], np.array([0, 0, 1, 1, 2, 2])
    data = metric_inputs(codes, factors)
    found = 0
    for seed in range(200):
        learned, tested = data.split(10_000, 5_000, seed)
        if len(np.unique(learned.factors)) == 2 and not np.intersect1d(learned.factors, tested.factors).size:
            found += 1
            with pytest.raises(DataError, match="'factor 0'"):
                explicitness(codes, factors, seed=seed)
    assert found > 0
