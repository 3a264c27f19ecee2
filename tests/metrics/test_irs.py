"""Interventional robustness against plain loops, and known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaescope.errors import ConfigurationError, UnknownNameError
from vaescope.metrics.fixed_factor import irs


def plain_quantile(numbers: list[float], share: float) -> float:
    """Linear interpolation between the two nearest sorted numbers."""
    ordered = sorted(numbers)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def plain_irs(codes: list[list[float]], factors: list[list[int]], share: float) -> tuple[float, list[list[float]]]:
    matrix, weights = [], []
    for latent in range(len(codes[0])):
        column = [row[latent] for row in codes]
        mean = math.fsum(column) / len(column)
        greatest = max(abs(number - mean) for number in column)
        row = []
        for factor in range(len(factors[0])):
            distances = []
            for value in sorted({values[factor] for values in factors}):
                own = [number for number, values in zip(column, factors, strict=True) if values[factor] == value]
                centre = math.fsum(own) / len(own)
                distances.append(plain_quantile([abs(number - centre) for number in own], share))
            row.append(1 - math.fsum(distances) / len(distances) / greatest)
        matrix.append(row)
        weights.append(greatest)
    total = math.fsum(weight * max(row) for weight, row in zip(weights, matrix, strict=True))
    return total / math.fsum(weights), matrix


def some_factors(items: int = 400) -> np.ndarray:
    generator = np.random.default_rng(0)
    return np.stack([generator.integers(count, size=items) for count in (3, 5, 30)], axis=1)


def perfect(factors: np.ndarray) -> np.ndarray:
    return (factors - factors.mean(0)) / factors.std(0)


def blurred(factors: np.ndarray) -> np.ndarray:
    generator = np.random.default_rng(1)
    mixed = perfect(factors) @ (np.eye(3) + 0.4 * generator.standard_normal((3, 3)))
    return np.concatenate((mixed * [1, 5, 0.2], generator.standard_normal((len(factors), 1))), axis=1)


@pytest.mark.parametrize("share", [0.5, 0.99, 1.0])
def test_the_score_is_that_of_plain_loops(share: float) -> None:
    factors = some_factors()
    codes = blurred(factors)
    score = irs(codes, factors, quantile=share)
    expected, matrix = plain_irs(codes.tolist(), factors.tolist(), share)
    assert score.score == pytest.approx(expected, abs=1e-12)
    np.testing.assert_allclose(score.matrix, matrix, atol=1e-12)


def test_continuous_factors_fall_into_bins() -> None:
    generator = np.random.default_rng(2)
    values = generator.random((300, 2))
    codes = np.stack((values[:, 0], values.sum(1), generator.standard_normal(300)), axis=1)
    edges = [np.linspace(column.min(), column.max(), 8) for column in values.T]
    binned = [np.searchsorted(edge[1:-1], column, side="right") for edge, column in zip(edges, values.T, strict=True)]
    expected, _ = plain_irs(codes.tolist(), np.stack(binned, axis=1).tolist(), 0.99)
    assert irs(codes, values, bins=7).score == pytest.approx(expected, abs=1e-12)


def test_whole_numbers_fall_into_bins_on_request() -> None:
    factors = some_factors()
    codes = blurred(factors)
    last = [np.histogram(factors[:, 2], 20)[1][1:-1].searchsorted(factors[:, 2], side="right")]
    expected, _ = plain_irs(codes.tolist(), np.stack([factors[:, 0], factors[:, 1], *last], 1).tolist(), 0.99)
    assert irs(codes, factors, binned="all").score == pytest.approx(expected, abs=1e-12)
    assert irs(codes, factors).score != pytest.approx(expected, abs=1e-6)


def test_one_latent_for_each_factor_is_perfect() -> None:
    factors = some_factors()
    score = irs(perfect(factors), factors, scale=True)
    assert score.score == pytest.approx(1, abs=1e-12)
    assert score.perfect == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(np.diagonal(score.matrix), 1, atol=1e-12)  # type: ignore[arg-type]


def test_noise_scores_above_0_because_of_outliers() -> None:
    generator = np.random.default_rng(3)
    factors = generator.integers(4, size=(20_000, 2))
    score = irs(generator.standard_normal((20_000, 5)), factors)
    # The distance that one normal number in a hundred passes, 2.576, against the greatest of 20,000, 3.8 to 4.9.
    assert 1 - 2.7 / 3.8 < score.score < 1 - 2.45 / 4.9


def test_rotated_codes_score_less() -> None:
    factors = some_factors()
    rotation = np.linalg.qr(np.random.default_rng(5).standard_normal((3, 3)))[0]
    assert irs(perfect(factors) @ rotation, factors).score < 0.8


@settings(max_examples=30, deadline=None)
@given(
    order=st.permutations(range(4)),
    signs=st.lists(st.sampled_from([-1.0, 1.0]), min_size=4, max_size=4),
    scale=st.sampled_from([0.25, 1.0, 1024.0]),
    offset=st.sampled_from([0.0, 3.0]),
)
def test_order_sign_and_common_scale_of_latents_do_not_matter(
    order: list[int], signs: list[float], scale: float, offset: float
) -> None:
    factors = some_factors(200)
    codes = blurred(factors)
    before, after = irs(codes, factors), irs(codes[:, order] * signs * scale + offset, factors)
    assert after.score == pytest.approx(before.score, abs=1e-9)
    np.testing.assert_allclose(after.matrix, before.matrix[order], atol=1e-9)  # type: ignore[index]


def test_a_latent_of_larger_scale_weighs_more() -> None:
    factors = some_factors()
    codes = blurred(factors)
    score, larger = irs(codes, factors), irs(codes * [100, 1, 1, 1], factors)
    np.testing.assert_allclose(larger.matrix, score.matrix, atol=1e-12)  # type: ignore[arg-type]
    assert abs(larger.score - score.matrix[0].max()) < abs(score.score - score.matrix[0].max())  # type: ignore[index]


def test_latents_that_do_not_vary_are_left_out() -> None:
    factors = some_factors()
    codes = blurred(factors)
    still = np.insert(codes, 1, 0.1, axis=1)
    score = irs(still, factors)
    assert score.score == irs(codes, factors).score
    assert score.parts["latents_kept"] == 4
    np.testing.assert_array_equal(score.matrix[1], 0)  # type: ignore[index]


def test_without_latents_that_vary_the_score_is_0() -> None:
    score = irs(np.full((400, 2), 0.1), some_factors())
    assert (score.score, score.parts) == (0, {"latents_kept": 0})


def test_a_value_with_a_single_item_does_not_vary() -> None:
    factors = np.array([[0], [0], [0], [1]])
    codes = np.array([[0.0], [1.0], [2.0], [7.0]])
    score = irs(codes, factors, quantile=1)
    assert score.score == pytest.approx(1 - (1 + 0) / 2 / 4.5, abs=1e-12)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"quantile": 0}, ConfigurationError, "quantile"),
        ({"quantile": 1.5}, ConfigurationError, "quantile.*1.5"),
        ({"bins": 1}, ConfigurationError, "bins"),
        ({"binned": "none"}, UnknownNameError, "'none'"),
    ],
)
def test_a_wrong_setting_is_named(wrong: dict, error: type[Exception], message: str) -> None:
    factors = some_factors()
    with pytest.raises(error, match=message):
        irs(blurred(factors), factors, **wrong)
