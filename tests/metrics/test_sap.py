"""Separated attribute predictability: the definition, scikit-learn's machines, and its invariances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

from reference.reference_sap import machine, predictions, squared_correlation
from vaescope.errors import DataError, UnknownNameError
from vaescope.metrics.inputs import metric_inputs
from vaescope.metrics.linear_svm import LinearSVMs, classify
from vaescope.metrics.single_latent import SVM_COST, sap


def world(items: int = 3000, seed: int = 0, classes: tuple[int, ...] = (2, 3, 6, 20)) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.stack([generator.integers(0, count, items) for count in classes], 1)


def mixed(factors: np.ndarray, seed: int = 0, latents: int = 5) -> np.ndarray:
    generator = np.random.default_rng((seed, 1))
    weights = generator.standard_normal((factors.shape[1], latents))
    return factors @ weights + generator.standard_normal((len(factors), latents))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), slope=st.sampled_from([-2.0, -0.1, 0.0, 0.5, 5.0]), share=st.sampled_from([0.1, 0.5]))
def test_a_machine_is_the_minimum_of_its_loss(seed: int, slope: float, share: float) -> None:
    generator = np.random.default_rng(seed)
    positive = generator.random(60) < share
    positive[:2] = True, False
    values = slope * positive + generator.standard_normal(60)
    problems = LinearSVMs(values, positive.astype(int), np.array([0.3]), np.array([0.05]), np.array([1]))
    weight, bias = problems.solve()
    assert (weight[0], bias[0]) == pytest.approx(machine(values, positive, 0.3, 0.05), abs=1e-5)


def test_guesses_are_those_of_the_definition() -> None:
    factors = world(120, classes=(3,))
    codes = mixed(factors, latents=1)[:, 0]
    expected = predictions(codes[:80], factors[:80, 0].tolist(), codes[80:], 0.01)
    assert classify(codes[:80], factors[:80, 0], codes[80:], cost=SVM_COST).tolist() == expected


@pytest.mark.parametrize("classes", [2, 3, 12])
@pytest.mark.parametrize("balanced", [True, False])
def test_guesses_are_those_of_an_exact_library_machine(classes: int, balanced: bool) -> None:
    generator = np.random.default_rng(classes)
    shares = None if balanced else np.arange(1, classes + 1) / (classes * (classes + 1) / 2)
    labels = generator.choice(classes, 2000, p=shares)
    values = labels + 0.5 * generator.standard_normal(2000) - 1
    library = LinearSVC(C=SVM_COST, class_weight="balanced", dual=False, tol=1e-9, max_iter=10_000)
    expected = library.fit(values[:1000, None], labels[:1000]).predict(values[1000:, None])
    assert np.mean(classify(values[:1000], labels[:1000], values[1000:], cost=SVM_COST) == expected) > 0.998


def test_both_protocols_agree() -> None:
    factors = world()
    codes = mixed(factors)
    fast, library = sap(codes, factors), sap(codes, factors, protocol="dlib")
    # 1,000 items are tested, and scikit-learn stops within its tolerance of the minimum: a few guesses may differ.
    np.testing.assert_allclose(fast.matrix, library.matrix, atol=0.004)
    assert fast.score == pytest.approx(library.score, abs=0.003)


def test_a_continuous_factor_counts_by_its_squared_correlation() -> None:
    generator = np.random.default_rng(0)
    source = generator.random(300)
    codes = np.column_stack([source + generator.random(300), generator.random(300), np.ones(300)])
    found = sap(codes, source)
    expected = [squared_correlation(codes[:, place].tolist(), source.tolist()) for place in range(2)]
    assert found.matrix[:, 0] == pytest.approx([*expected, 0], abs=1e-12)
    assert found.score == pytest.approx(expected[0] - expected[1], abs=1e-12)


def test_factors_of_both_kinds_have_their_own_measure() -> None:
    generator = np.random.default_rng(0)
    source, label = generator.random(2000), generator.integers(0, 2, 2000)
    found = sap(np.column_stack([source, label]), np.column_stack([source, label]))
    assert found.by_factor == pytest.approx((1, 0.5), abs=0.05)


def test_perfect_codes_of_two_classes_leave_other_classes_to_chance() -> None:
    factors = world(classes=(2, 2))
    assert sap(factors * [1.0, -5.0], factors).score == pytest.approx(0.5, abs=0.04)
    assert sap(factors.astype(float), factors + 0.5, continuous=True).score == pytest.approx(1, abs=0.01)


def test_noise_scores_about_0() -> None:
    noise = np.random.default_rng(5).standard_normal((15000, 5))
    # The two best of five accuracies over 5,000 items each, with a standard error of at most .007.
    assert sap(noise, world(15000)).score < 0.015


def test_a_factor_in_two_latents_has_no_gap() -> None:
    factors = world(classes=(3, 6))
    assert sap(np.column_stack([factors, factors[:, 0]]), factors).by_factor[0] == pytest.approx(0, abs=1e-12)


@settings(max_examples=10, deadline=None)
@given(order=st.permutations(range(5)), signs=st.lists(st.sampled_from([-1.0, 1.0]), min_size=5, max_size=5))
def test_order_and_sign_of_latents_do_not_matter(order: list[int], signs: list[float]) -> None:
    factors = world(600)
    codes = mixed(factors)
    assert sap((codes * signs)[:, order], factors).score == pytest.approx(sap(codes, factors).score, abs=1e-3)


def test_a_single_latent_is_compared_with_a_constant_guess() -> None:
    factors = world(3000, classes=(2,))
    assert sap(factors.astype(float), factors).score == pytest.approx(0.5, abs=0.04)
    assert sap(np.zeros((3000, 1)), factors).score == 0


def test_the_seed_chooses_the_items_that_are_tested() -> None:
    factors = world(600)
    codes = mixed(factors)
    assert sap(codes, factors, seed=1) == sap(codes, factors, seed=1)
    assert sap(codes, factors, seed=1).score != sap(codes, factors, seed=2).score


def test_a_class_with_a_single_example_is_named() -> None:
    factors = np.array([0, 0, 0, 1, 1, 2])
    with pytest.raises(DataError, match=r"class 2 of 'shape' has 1"):
        sap(np.arange(6.0)[:, None], factors, names=("shape",))


def test_too_few_items_to_learn_from_are_refused() -> None:
    data = metric_inputs(np.arange(4.0)[:, None], np.array([0, 0, 1, 1]))
    refused = 0
    for seed in range(20):
        learned = data.split(10_000, 5_000, seed)[0]
        if len(np.unique(learned.factors)) < 2:
            refused += 1
            with pytest.raises(DataError, match=r"'factor 0'.*4 items"):
                sap(data.codes, data.factors, seed=seed)
    assert refused > 0


def test_an_unknown_protocol_is_named() -> None:
    with pytest.raises(UnknownNameError, match="'slow'"):
        sap(np.eye(4), np.arange(4), protocol="slow")
