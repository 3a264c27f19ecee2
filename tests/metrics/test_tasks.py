"""Downstream tasks: scikit-learn's classifiers on the same split, extremes of the scale, and few examples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from reference import reference_tasks
from vaescope.codes import Representation
from vaescope.errors import ConfigurationError, DataError, UnknownNameError
from vaescope.metrics.prediction import CLASSIFIERS, downstream_accuracy, sample_efficiency

CLASSES = (2, 3, 5)


def world(items: int = 900, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.stack([generator.integers(0, count, items) for count in CLASSES], 1)


def mixed(factors: np.ndarray, noise: float = 0.5, latents: int = 5) -> np.ndarray:
    """Latents that are noisy random mixtures of the factors."""
    generator = np.random.default_rng(1)
    weights = generator.standard_normal((factors.shape[1], latents))
    return factors @ weights + noise * generator.standard_normal((len(factors), latents))


def test_the_accuracy_of_logistic_regression_is_that_of_scikit_learn() -> None:
    factors = world()
    codes = mixed(factors) * np.array([1.0, 10.0, 0.1, 1.0, 5.0])
    found = downstream_accuracy(codes, factors, classifier="logistic", seed=3)
    learns, tests = reference_tasks.split(900, 10_000, 5_000, 3)
    expected = [
        reference_tasks.accuracy(
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), codes, factor, learns, tests
        )
        for factor in factors.T
    ]
    assert found.by_factor == pytest.approx(expected, abs=1e-9)
    assert found.score == pytest.approx(np.mean(expected), abs=1e-9)


def test_majority_is_the_accuracy_of_the_most_frequent_class() -> None:
    factors = np.minimum(world(), 1)
    learns, tests = reference_tasks.split(900, 400, 200, 0)
    expected = [reference_tasks.majority(factor, learns, tests) for factor in factors.T]
    found = downstream_accuracy(mixed(factors), factors, classifier="logistic", train_items=400, test_items=200)
    assert found.parts["majority"] == pytest.approx(np.mean(expected), abs=1e-12)


def test_trees_answer_as_well_as_exact_boosting() -> None:
    """On 300 test items and 3 factors the standard error of the mean difference is below .02."""
    factors = world()
    codes = mixed(factors)
    learns, tests = reference_tasks.split(900, 10_000, 5_000, 0)
    expected = [
        reference_tasks.accuracy(GradientBoostingClassifier(random_state=0), codes, factor, learns, tests)
        for factor in factors.T
    ]
    assert downstream_accuracy(codes, factors).score == pytest.approx(np.mean(expected), abs=0.05)


@pytest.mark.parametrize("classifier", sorted(CLASSIFIERS))
def test_factors_as_codes_are_predicted_perfectly_and_noise_at_chance(classifier: str) -> None:
    """Noise: 3 factors x 1000 items have a standard error of .01 about the guess."""
    # Two classes to a factor: a line cuts every one from the others.
    factors = np.random.default_rng(0).integers(0, 2, (3000, 3))
    found = downstream_accuracy(factors * 1.0, factors, classifier=classifier, scale=True)
    assert found.score == found.perfect == 1
    assert found.random == pytest.approx(0.5, abs=0.04)


def test_codes_that_are_not_linearly_separable_need_trees() -> None:
    factors = np.random.default_rng(0).integers(0, 2, 1000)
    codes = np.random.default_rng(1).standard_normal((1000, 2))
    codes[:, 0] = np.where(factors, np.sign(codes[:, 0]) * 3, 0) + 0.1 * codes[:, 1]
    assert downstream_accuracy(codes, factors).score > 0.99
    assert downstream_accuracy(codes, factors, classifier="logistic").score < 0.7


def test_rare_classes_do_not_make_trees_diverge() -> None:
    codes = np.random.default_rng(0).standard_normal((6000, 3))
    edges = np.linspace(codes[:, 0].min(), codes[:, 0].max(), 9)[1:-1]
    factors = np.digitize(codes[:, 0], edges)
    assert np.bincount(factors).min() < 30
    assert downstream_accuracy(codes, factors).score > 0.97


@settings(deadline=None, max_examples=6)
@given(
    order=st.permutations(range(5)),
    scales=st.lists(st.sampled_from([-3.0, -0.1, 0.1, 10.0]), min_size=5, max_size=5),
    classifier=st.sampled_from(sorted(CLASSIFIERS)),
)
def test_the_order_scale_and_sign_of_latents_hardly_matter(
    order: list[int], scales: list[float], classifier: str
) -> None:
    """Trees take the first of equal splits, and bins of a mirrored latent have other edges: a few of 100 answers
    differ.
    """
    factors = world(300)
    codes = mixed(factors, 0.1)
    whole = downstream_accuracy(codes, factors, classifier=classifier).score
    other = downstream_accuracy(codes[:, order] * np.array(scales), factors, classifier=classifier).score
    assert other == pytest.approx(whole, abs=0.06 if classifier == "trees" else 1e-9)


def test_scores_depend_on_the_seed_alone() -> None:
    factors = world(300)
    codes = mixed(factors)
    found = downstream_accuracy(codes, factors, seed=1)
    assert found == downstream_accuracy(codes, factors, seed=1)
    assert found.score != downstream_accuracy(codes, factors, seed=2).score
    assert sample_efficiency(codes, factors, few=10) == sample_efficiency(codes, factors, few=10)


def test_the_labels_of_a_representation_are_its_factor() -> None:
    labels = world()[:, 1]
    mean = torch.from_numpy(mixed(world()))
    codes = Representation(mean, torch.ones_like(mean), mean, labels=torch.from_numpy(labels))
    found = downstream_accuracy(codes, classifier="logistic")
    assert found.factors == ("label",)
    assert found.score == downstream_accuracy(mean, labels, classifier="logistic").score


def test_the_interval_comes_from_halves_even_where_a_class_is_rare() -> None:
    factors = world(300)[:, 1:]
    factors[:3, 0] = 3
    factors[3:, 0] %= 3
    found = downstream_accuracy(mixed(factors), factors, classifier="logistic", half_samples=6)
    assert found.interval is not None
    assert found.interval[0] < found.score < found.interval[1]


def test_efficiency_is_accuracy_after_few_over_accuracy_after_many() -> None:
    factors = world(900)
    codes = mixed(factors)
    found = sample_efficiency(codes, factors, sizes=(20, 100, 500), classifier="logistic", test_items=300)
    learns, tests = reference_tasks.split(900, 500, 300, 0)
    table = {
        size: [
            reference_tasks.accuracy(
                make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), codes, factor, learns[:size], tests
            )
            for factor in factors.T
        ]
        for size in (20, 100, 500)
    }
    means = {size: np.mean(own) for size, own in table.items()}
    for size, mean in means.items():
        assert found.parts[f"accuracy_{size}"] == pytest.approx(mean, abs=1e-9)
    assert found.parts["share_20"] == pytest.approx(means[20] / means[500], abs=1e-9)
    assert found.parts["share_100"] == found.score == pytest.approx(means[100] / means[500], abs=1e-9)
    assert found.by_factor == pytest.approx(np.array(table[100]) / np.array(table[500]), abs=1e-9)


def test_factors_as_codes_need_fewer_examples_than_mixed_codes() -> None:
    factors = world(1500)
    perfect, tangled = (
        sample_efficiency(codes, factors, sizes=(10, 50, 800), few=50, test_items=400)
        for codes in (factors * 1.0, mixed(factors, 0.2))
    )
    assert perfect.score == perfect.parts["accuracy_800"] == 1
    assert tangled.score < 0.9
    assert tangled.parts["accuracy_10"] < tangled.parts["accuracy_50"] < tangled.parts["accuracy_800"]


def test_sizes_end_at_the_items_there_are_and_the_estimator_says_so() -> None:
    factors = world(450)
    found = sample_efficiency(mixed(factors), factors, classifier="logistic")
    assert [name for name in found.parts if name.startswith("accuracy")] == [
        "accuracy_10",
        "accuracy_100",
        "accuracy_300",
    ]
    assert "10, 100, 300 items to learn from (of [10, 100, 1000, 10000]: there are 450 items)" in found.estimator
    whole = sample_efficiency(mixed(factors), factors, classifier="logistic", sizes=(100, 300), test_items=150)
    assert whole.estimator.endswith("100, 300 items to learn from")
    assert whole.score == found.score


@pytest.mark.parametrize("classifier", sorted(CLASSIFIERS))
def test_the_only_class_among_few_examples_is_always_predicted(classifier: str) -> None:
    factors = world(600)
    factors[:, 0] = np.arange(600) % 20 == 0
    codes = mixed(factors)
    found = sample_efficiency(codes, factors, sizes=(2, 400), few=2, test_items=200, classifier=classifier)
    many = downstream_accuracy(codes, factors, classifier=classifier, train_items=400, test_items=200)
    learns, tests = reference_tasks.split(600, 400, 200, 0)
    assert not factors[learns[:2], 0].any()
    assert found.by_factor is not None
    assert many.by_factor is not None
    assert found.by_factor[0] == pytest.approx((1 - factors[tests, 0].mean()) / many.by_factor[0], abs=1e-12)
    assert found.parts["accuracy_400"] == many.score


def test_bad_settings_are_named() -> None:
    factors = world(300)
    codes = mixed(factors)
    with pytest.raises(UnknownNameError, match="'tree'"):
        downstream_accuracy(codes, factors, classifier="tree")
    with pytest.raises(ConfigurationError, match="train_items"):
        downstream_accuracy(codes, factors, train_items=1)
    with pytest.raises(ConfigurationError, match="test_items"):
        sample_efficiency(codes, factors, test_items=0)
    with pytest.raises(ConfigurationError, match=r"few.*\[10, 50\].*100"):
        sample_efficiency(codes, factors, sizes=(100, 50, 10))
    with pytest.raises(ConfigurationError, match=r"size.*0"):
        sample_efficiency(codes, factors, sizes=(0, 100))


def test_factors_that_cannot_be_learned_are_named() -> None:
    factors = world(300)
    codes = mixed(factors)
    lone = factors.copy()
    lone[7, 2] = 9
    with pytest.raises(DataError, match="class 9 of 'factor 2' has 1"):
        downstream_accuracy(codes, lone)
    for metric in (downstream_accuracy, sample_efficiency):
        with pytest.raises(DataError, match="'factor 0' is continuous"):
            metric(codes, codes[:, :1])
    with pytest.raises(DataError, match="two classes of 'factor 0'"):
        downstream_accuracy(codes[:4], np.array([0, 1, 0, 1]), train_items=2, test_items=2, seed=one_class_seed())
    with pytest.raises(DataError, match=r"120.*80"):
        sample_efficiency(codes[:120], factors[:120])


def one_class_seed() -> int:
    """A seed that draws two items of one class to learn from."""
    factor = np.array([0, 1, 0, 1])
    return next(seed for seed in range(99) if len(set(factor[reference_tasks.split(4, 2, 2, seed)[0]].tolist())) == 1)
