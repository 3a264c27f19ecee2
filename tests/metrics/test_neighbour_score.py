"""The score by nearest neighbours: the definition item by item, scikit-learn's predictions, and its invariances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from reference.reference_neighbours import deviation, predictability
from vaescope.errors import ConfigurationError, DataError
from vaescope.metrics.inputs import metric_inputs
from vaescope.metrics.single_latent import nearest_on_line, neighbours


def world(items: int = 1000, seed: int = 0) -> np.ndarray:
    """Two factors of classes and a continuous one."""
    generator = np.random.default_rng(seed)
    return np.column_stack([generator.integers(0, 3, items), generator.integers(0, 6, items), generator.random(items)])


def mixed(factors: np.ndarray, latents: int = 4, noise: float = 0.3, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng((seed, 1))
    weights = generator.standard_normal((factors.shape[1], latents))
    return factors @ weights + noise * generator.standard_normal((len(factors), latents))


def test_the_score_follows_its_definition() -> None:
    factors = world(300)
    data = metric_inputs(mixed(factors), factors)
    learned, tested = data.split(240, 60, 0)
    found = neighbours(data.codes, factors)
    scores = []
    for place, kind in enumerate((True, True, False)):
        known, true = learned.factors[:, place].tolist(), tested.factors[:, place].tolist()
        column = [
            predictability(learned.codes[:, latent], tested.codes[:, latent], known, true, kind) for latent in range(4)
        ]
        assert found.matrix[:, place] == pytest.approx(column, abs=1e-12)
        second, first = sorted(column)[-2:]
        unit = max(true.count(value) for value in true) / len(true) if kind else deviation(true)
        scores.append(min(1.0, max(0.0, (first - second) / unit)))
    assert found.by_factor == pytest.approx(scores, abs=1e-12)
    assert found.score == pytest.approx(sum(scores) / 3, abs=1e-12)


def test_predictions_are_those_of_scikit_learn() -> None:
    factors = world(2000)
    data = metric_inputs(mixed(factors), factors)
    learned, tested = data.split(1600, 400, 0)
    matrix = neighbours(data.codes, factors).matrix
    one, other = learned.codes[:, :1], tested.codes[:, :1]
    classes = KNeighborsClassifier(5).fit(one, learned.factors[:, 1].astype(int))
    assert matrix[0, 1] == pytest.approx(classes.score(other, tested.factors[:, 1].astype(int)), abs=1e-12)
    guess = KNeighborsRegressor(5).fit(one, learned.factors[:, 2]).predict(other)
    true = tested.factors[:, 2]
    assert matrix[0, 2] == pytest.approx(max(0, true.std() - np.sqrt(np.mean((guess - true) ** 2))), abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), items=st.integers(3, 30), count=st.integers(1, 3))
def test_no_other_number_is_nearer(seed: int, items: int, count: int) -> None:
    generator = np.random.default_rng(seed)
    learned, tested = np.round(generator.standard_normal(items), 1), np.round(2 * generator.standard_normal(20), 1)
    places = nearest_on_line(learned, tested, count)
    assert all(len(set(row)) == count for row in places.tolist())
    found = np.sort(np.abs(learned[places] - tested[:, None]), 1)
    np.testing.assert_allclose(found, np.sort(np.abs(learned - tested[:, None]), 1)[:, :count])


def test_perfect_codes_score_one() -> None:
    factors = world(5000)
    assert neighbours(factors, factors).score == pytest.approx(1, abs=0.02)


def test_noise_scores_about_0() -> None:
    noise = np.random.default_rng(1).standard_normal((10_000, 4))
    # The accuracies of 2,000 guesses have a standard error of .01, a thirtieth of the constant guess of 3 classes.
    assert neighbours(noise, world(10_000)).score < 0.1


def test_a_factor_in_two_latents_has_almost_no_gap() -> None:
    factors = world(3000)
    assert neighbours(np.column_stack([factors, factors[:, 2]]), factors).by_factor == pytest.approx(
        (1, 1, 0), abs=0.02
    )


def test_a_rotation_lowers_the_score() -> None:
    factors = np.random.default_rng(0).random((3000, 2))
    turn = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)
    assert neighbours(factors @ turn, factors).score < 0.1 < 0.9 < neighbours(factors, factors).score


@settings(max_examples=15, deadline=None)
@given(
    order=st.permutations(range(4)),
    scales=st.lists(st.floats(0.01, 100) | st.floats(-100, -0.01), min_size=4, max_size=4),
)
def test_order_and_sign_and_scale_of_latents_do_not_matter(order: list[int], scales: list[float]) -> None:
    factors = world(200)
    codes = mixed(factors)
    assert neighbours((codes * scales)[:, order], factors).score == pytest.approx(neighbours(codes, factors).score)


def test_a_single_latent_is_compared_with_a_constant_guess() -> None:
    factors = world(2000)
    found = neighbours(factors[:, 2:], factors)
    assert found.by_factor == pytest.approx((0, 0, 1), abs=0.1)


def test_fewer_items_than_neighbours_are_refused() -> None:
    with pytest.raises(DataError, match=r"5 neighbours.*4 of 6"):
        neighbours(np.arange(6.0)[:, None], np.arange(6.0))


def test_a_factor_that_does_not_vary_among_the_tested_items_is_named() -> None:
    with pytest.raises(DataError, match=r"'height'.*2 test items"):
        neighbours(
            np.arange(10.0)[:, None],
            np.r_[0.5, np.ones(9)],
            names=("height",),
            continuous=True,
            seed=_keeping_the_first(),
        )


def _keeping_the_first() -> int:
    """A seed under which the first of ten items is not among the tested."""
    return next(seed for seed in range(50) if 0 not in np.random.default_rng(seed).permutation(10)[8:])


def test_the_number_of_neighbours_must_be_whole() -> None:
    with pytest.raises(ConfigurationError, match="count"):
        neighbours(np.eye(10), np.arange(10), count=0)
