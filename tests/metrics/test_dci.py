"""DCI: the definition over importances, both kinds of trees, their ranking, and its invariances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.stats import spearmanr
from sklearn.ensemble import GradientBoostingClassifier

from reference.reference_dci import completeness, disentanglement
from vaescope.errors import DataError, UnknownNameError
from vaescope.metrics.inputs import metric_inputs
from vaescope.metrics.prediction import concentration, dci


def world(items: int = 600, seed: int = 0, classes: tuple[int, ...] = (3, 4, 5)) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.stack([generator.integers(0, count, items) for count in classes], 1)


def turned(factors: np.ndarray, turn: float, noise: float = 0.05, seed: int = 0) -> np.ndarray:
    """The factors and as many noise latents, rotated into each other by a share of a right angle."""
    generator = np.random.default_rng((seed, 1))
    sources = (factors - factors.mean(0)) / factors.std(0)
    codes = np.concatenate([sources, generator.standard_normal(sources.shape)], 1)
    codes += noise * generator.standard_normal(codes.shape)
    raw = generator.standard_normal((codes.shape[1],) * 2)
    skew = raw - raw.T
    return codes @ expm(turn * np.pi / 2 * skew / np.abs(np.linalg.eigvals(skew)).max())


@pytest.mark.parametrize("protocol", ["fast", "dlib"])
def test_the_scores_follow_their_definitions_from_the_matrix(protocol: str) -> None:
    factors = world(200, classes=(2, 3))
    found = dci(turned(factors, 0.4), factors, protocol=protocol)
    assert found.matrix.sum(0) == pytest.approx(1)
    assert found.score == pytest.approx(disentanglement(found.matrix), abs=1e-12)
    assert found.parts["completeness"] == pytest.approx(completeness(found.matrix), abs=1e-12)


def test_the_library_protocol_is_that_of_disentanglement_lib() -> None:
    factors = world(300, classes=(2, 3))
    data = metric_inputs(turned(factors, 0.3), factors)
    learned, tested = data.split(10_000, 5_000, 4)
    models = [GradientBoostingClassifier(random_state=4).fit(learned.codes, column) for column in learned.classes.T]
    found = dci(data.codes, factors, protocol="dlib", seed=4)
    np.testing.assert_allclose(found.matrix, np.stack([model.feature_importances_ for model in models], 1), atol=1e-9)
    accuracy = [model.score(tested.codes, column) for model, column in zip(models, tested.classes.T, strict=True)]
    assert found.parts["informativeness"] == pytest.approx(np.mean(accuracy))


@given(st.integers(0, 1000))
def test_concentration_is_the_definition_of_both_scores(seed: int) -> None:
    table = np.random.default_rng(seed).random((4, 3))
    table[table < 0.3] = 0
    table[0] += 0.1
    table /= table.sum(0)
    assert concentration(table) == pytest.approx(disentanglement(table), abs=1e-12)
    assert concentration(table.T) == pytest.approx(completeness(table), abs=1e-12)


def test_concentration_of_known_tables() -> None:
    assert concentration(np.eye(3)) == 1
    assert concentration(np.ones((3, 3))) == pytest.approx(0, abs=1e-12)
    assert concentration(np.zeros((3, 3))) == 0


@pytest.mark.parametrize("protocol", ["fast", "dlib"])
def test_perfect_codes_score_one(protocol: str) -> None:
    factors = world(600, classes=(2, 3))
    found = dci(factors * [2.0, -0.1], factors, protocol=protocol)
    assert found.score == pytest.approx(1, abs=0.01)
    assert found.parts == pytest.approx({"completeness": 1, "informativeness": 1}, abs=0.01)


def test_duplicates_stay_disentangled_and_become_incomplete() -> None:
    factors = world(3000)
    noise = 0.05 * np.random.default_rng(2).standard_normal((3000, 6))
    found = dci(np.column_stack([factors, factors]) + noise, factors)
    assert found.score > 0.95
    assert found.parts["completeness"] < 0.85


def test_noise_scores_about_0() -> None:
    noise = np.random.default_rng(1).standard_normal((5000, 5))
    found = dci(noise, world(5000))
    assert found.score < 0.05
    assert found.parts["informativeness"] == pytest.approx(np.mean([1 / 3, 1 / 4, 1 / 5]), abs=0.04)


def test_a_rotation_lowers_the_score() -> None:
    factors = world(2000)
    scores = [dci(turned(factors, turn), factors).score for turn in (0, 0.2, 1)]
    assert scores[0] > scores[1] + 0.1 > scores[2] + 0.2


def test_order_and_sign_and_scale_of_latents_do_not_matter() -> None:
    factors = world(2000)
    codes = turned(factors, 0.3)
    scales = np.array([1e-3, -1e3, 2.0, -1.0, 7.0, -0.3])
    found, moved = dci(codes, factors), dci((codes * scales)[:, [4, 0, 5, 3, 1, 2]], factors)
    # Bin edges and ties between gains may differ, which changes a few items.
    assert moved.score == pytest.approx(found.score, abs=0.02)
    np.testing.assert_allclose(moved.matrix, found.matrix[[4, 0, 5, 3, 1, 2]], atol=0.02)


def test_an_unordered_factor_is_found_as_well() -> None:
    factors = world(3000, classes=(8, 8))
    shuffled = np.array([5, 2, 7, 0, 3, 6, 1, 4])[factors]
    codes = turned(factors, 0.1)
    assert dci(codes, shuffled).score == pytest.approx(dci(codes, factors).score, abs=0.01)


@pytest.mark.slow
def test_both_protocols_rank_representations_equally() -> None:
    cases = [(turn, noise) for noise in (0.05, 0.8) for turn in (0, 0.25, 0.5, 1)]
    scores = []
    for number, (turn, noise) in enumerate(cases):
        # Of fewer items the scores of either protocol change more with the split than between the noisy cases.
        factors = world(900, number, classes=(2, 3))
        codes = turned(factors, turn, noise, number)
        scores.append([dci(codes, factors, protocol=protocol).score for protocol in ("fast", "dlib")])
    assert spearmanr(*zip(*scores, strict=True)).statistic >= 0.95


def test_the_same_seed_gives_the_same_result() -> None:
    factors = world(300)
    codes = turned(factors, 0.2)
    first, again, other = (dci(codes, factors, seed=seed) for seed in (1, 1, 2))
    assert first == again
    np.testing.assert_array_equal(first.matrix, again.matrix)
    assert first.score != other.score


def test_codes_that_do_not_vary_score_nothing() -> None:
    found = dci(np.ones((300, 3)), world(300))
    assert (found.score, found.parts["completeness"]) == (0, 0)


def test_a_single_latent_is_complete() -> None:
    factors = world(600)
    assert dci(factors[:, :1], factors).parts["completeness"] == 1


def test_a_class_that_is_missing_by_chance_is_no_error() -> None:
    factors = np.column_stack([np.r_[np.arange(58) % 2, 2, 2], np.arange(60) % 3])
    codes = np.random.default_rng(0).standard_normal((60, 2))
    for seed in range(15):
        assert 0 <= dci(codes, factors, seed=seed).score <= 1


def test_a_single_factor_is_refused() -> None:
    with pytest.raises(DataError, match="at least 2"):
        dci(np.eye(6), np.arange(6) % 2)


def test_a_class_with_a_single_example_is_named() -> None:
    factors = np.column_stack([np.arange(10) % 2, np.r_[np.zeros(9), 1]])
    with pytest.raises(DataError, match=r"class 1 of 'scale' has 1"):
        dci(np.eye(10), factors, names=("shape", "scale"))


def test_an_unknown_protocol_is_named() -> None:
    with pytest.raises(UnknownNameError, match="'slow'"):
        dci(np.eye(6), np.arange(6), protocol="slow")
