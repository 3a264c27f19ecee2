"""The BetaVAE score against plain loops over the same draws, and known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaescope.errors import ConfigurationError, DataError
from vaescope.metrics import sampling
from vaescope.metrics.fixed_factor import beta_vae
from vaescope.metrics.sampling import ItemSampler

Drawn = list[tuple[int, list[int], list[int]]]


def plain_differences(codes: np.ndarray, drawn: Drawn) -> list[list[float]]:
    points = []
    for _, first, second in drawn:
        point = []
        for latent in range(codes.shape[1]):
            gaps = [abs(codes[a, latent] - codes[b, latent]) for a, b in zip(first, second, strict=True)]
            point.append(math.fsum(gaps) / len(gaps))
        points.append(point)
    return points


def plain_regression(points: list[list[float]], labels: list[int], classes: int) -> tuple[np.ndarray, np.ndarray]:
    """The least of the cross-entropies' sum and half the squared weights, by Newton's method on all parameters."""
    x = np.concatenate((np.array(points), np.ones((len(points), 1))), axis=1)
    width = x.shape[1]
    penalty = np.tile(np.append(np.ones(width - 1), 1e-9), classes)  # the offsets are free but for a common shift
    weights = np.zeros(classes * width)
    for _ in range(60):
        logits = x @ weights.reshape(classes, width).T
        chances = np.exp(logits - logits.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        gradient = penalty * weights
        hessian = np.diag(penalty)
        for row, label, chance in zip(x, labels, chances, strict=True):
            gradient = gradient + np.kron(chance - np.eye(classes)[label], row)
            hessian = hessian + np.kron(np.diag(chance) - np.outer(chance, chance), np.outer(row, row))
        step = np.linalg.solve(hessian, gradient)
        weights = weights - step
        if np.abs(step).max() < 1e-10:
            break
    table = weights.reshape(classes, width)
    return table[:, :-1], table[:, -1]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """The factor and the two sides of the pairs of every example, in the order in which they are drawn."""
    examples: Drawn = []

    class Recorded(ItemSampler):
        def draw_sharing(self, fixed: np.ndarray, anchors: np.ndarray, uniform: np.ndarray) -> np.ndarray:
            found = super().draw_sharing(fixed, anchors, uniform)
            examples.extend(zip(fixed[:, 0].tolist(), anchors.tolist(), found.tolist(), strict=True))
            return found

    monkeypatch.setattr(sampling, "ItemSampler", Recorded)
    return examples


def some_factors(items: int = 1000) -> np.ndarray:
    generator = np.random.default_rng(0)
    return np.stack([generator.integers(count, size=items) for count in (3, 4, 6)], axis=1)


def perfect(factors: np.ndarray) -> np.ndarray:
    return (factors - factors.mean(0)) / factors.std(0)


def blurred(factors: np.ndarray) -> np.ndarray:
    generator = np.random.default_rng(1)
    mixed = perfect(factors) @ (np.eye(3) + 0.5 * generator.standard_normal((3, 3)))
    return np.concatenate((mixed, generator.standard_normal((len(factors), 1))), axis=1)


def test_pairs_share_the_value_of_their_factor(drawn: Drawn) -> None:
    factors = some_factors()
    beta_vae(blurred(factors), factors, train_examples=100, test_examples=50)
    assert len(drawn) == 150
    for factor, first, second in drawn:
        assert len(first) == len(second) == 64
        assert (factors[first, factor] == factors[second, factor]).all()
        assert len(set(factors[first, factor].tolist())) > 1


def test_the_score_is_that_of_plain_loops(drawn: Drawn) -> None:
    factors = some_factors()
    codes = blurred(factors)
    score = beta_vae(codes, factors, train_examples=200, test_examples=150, batch=2, seed=2)
    learned, tested = drawn[:200], drawn[200:]
    points, labels = plain_differences(codes, learned), [factor for factor, _, _ in learned]
    weights, offsets = plain_regression(points, labels, 3)

    def accuracy(rows: list[list[float]], truth: list[int]) -> float:
        guesses = (np.array(rows) @ weights.T + offsets).argmax(1)
        return sum(int(guess) == factor for guess, factor in zip(guesses, truth, strict=True)) / len(truth)

    # scikit-learn stops at a gradient of 1e-4: an example on the border may change sides.
    assert abs(score.parts["train_accuracy"] - accuracy(points, labels)) <= 1 / 200
    assert abs(score.score - accuracy(plain_differences(codes, tested), [f for f, _, _ in tested])) <= 1 / 150
    assert 0.4 < score.score < 0.97


def test_the_matrix_has_the_mean_differences(drawn: Drawn) -> None:
    factors = some_factors()
    codes = blurred(factors)
    score = beta_vae(codes, factors, train_examples=100, test_examples=10, batch=7)
    points = np.array(plain_differences(codes, drawn[:100]))
    fixed = np.array([factor for factor, _, _ in drawn[:100]])
    expected = np.stack([points[fixed == factor].mean(0) for factor in range(3)], axis=1)
    np.testing.assert_allclose(score.matrix, expected, rtol=1e-12)


def test_blocks_of_examples_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    factors = some_factors()
    whole = beta_vae(blurred(factors), factors, train_examples=300, test_examples=200)
    monkeypatch.setattr(sampling, "MAX_BLOCK_ITEMS", 128 * 7)
    parts = beta_vae(blurred(factors), factors, train_examples=300, test_examples=200)
    assert parts == whole
    np.testing.assert_array_equal(parts.matrix, whole.matrix)


def test_one_latent_for_each_factor_is_perfect() -> None:
    factors = some_factors()
    score = beta_vae(perfect(factors), factors)
    assert score.score == 1
    assert score.by_factor == (1, 1, 1)
    np.testing.assert_array_equal(np.diagonal(score.matrix), 0)  # type: ignore[arg-type]


def test_noise_scores_chance_and_the_chance_is_reported() -> None:
    factors = some_factors(5000)
    score = beta_vae(np.random.default_rng(3).standard_normal((5000, 6)), factors, scale=True)
    assert score.parts["chance"] == 1 / 3
    # Five standard errors of a share of 5,000 tests, plus what a regression overfits to noise that is fixed for each
    # item.
    bound = 5 * math.sqrt(2 / 9 / 5000) + 0.02
    assert abs(score.score - 1 / 3) < bound
    assert score.random is not None
    assert abs(score.random - 1 / 3) < bound
    assert score.perfect == 1


def test_codes_that_do_not_vary_score_chance() -> None:
    factors = some_factors()
    # Five standard errors of a share of 5,000 tests.
    assert abs(beta_vae(np.full((1000, 2), 0.1), factors).score - 1 / 3) < 5 * math.sqrt(2 / 9 / 5000)


def test_rotations_do_not_lower_the_score_unlike_other_metrics() -> None:
    factors = some_factors()
    rotation = np.linalg.qr(np.random.default_rng(5).standard_normal((3, 3)))[0]
    score = beta_vae(perfect(factors) @ rotation, factors).score
    assert 0.5 < score < 1


def test_codes_of_any_scale_converge() -> None:
    factors = some_factors()
    assert beta_vae(perfect(factors) * 1e3, factors, train_examples=1000, test_examples=500).score == 1
    assert beta_vae(perfect(factors) * [1e3, 1, 1e-1], factors, train_examples=1000, test_examples=500).score > 0.95


@settings(max_examples=10, deadline=None)
@given(order=st.permutations(range(4)), signs=st.lists(st.sampled_from([-1.0, 1.0]), min_size=4, max_size=4))
def test_order_and_sign_of_latents_do_not_matter(order: list[int], signs: list[float]) -> None:
    factors = some_factors(300)
    codes = blurred(factors)
    before = beta_vae(codes, factors, train_examples=200, test_examples=100)
    after = beta_vae(codes[:, order] * signs, factors, train_examples=200, test_examples=100)
    # The optimum is the same; rounding on the way may move an example on the border.
    assert abs(after.score - before.score) <= 1 / 100
    np.testing.assert_array_equal(after.matrix, before.matrix[order])  # type: ignore[index]


def test_the_seed_decides_the_examples() -> None:
    factors = some_factors()
    first, again, other = (
        beta_vae(blurred(factors), factors, train_examples=200, test_examples=100, seed=seed).matrix
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_a_single_factor_is_refused() -> None:
    factors = some_factors()
    with pytest.raises(DataError, match=r"at least 2.*'factor 0'"):
        beta_vae(blurred(factors), factors[:, 0])


def test_two_factors_are_enough() -> None:
    factors = some_factors()[:, :2]
    score = beta_vae(perfect(factors), factors, train_examples=500, test_examples=200)
    assert (score.score, score.parts["chance"]) == (1, 0.5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"train_examples": 2}, "train_examples.*at least 3"),
        ({"test_examples": 0}, "test_examples"),
        ({"batch": 0.5}, "batch"),
    ],
)
def test_a_wrong_setting_is_named(wrong: dict, message: str) -> None:
    factors = some_factors()
    with pytest.raises(ConfigurationError, match=message):
        beta_vae(blurred(factors), factors, **wrong)
