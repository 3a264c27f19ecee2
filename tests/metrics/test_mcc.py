"""Mean correlation coefficient: all matchings, known sources, and its invariances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from reference.reference_mcc import mcc as by_trying
from reference.reference_mcc import ranks
from vaescope.errors import UnknownNameError
from vaescope.metrics.single_latent import absolute_correlations, mcc


def sources(items: int = 300, count: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((items, count))


def mixed(table: np.ndarray, latents: int = 4, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng((seed, 1))
    weights = generator.standard_normal((table.shape[1], latents))
    return table @ weights + 0.1 * generator.standard_normal((len(table), latents))


@pytest.mark.parametrize("seed", range(5))
def test_the_matching_is_the_best_one(seed: int) -> None:
    table = sources(seed=seed)
    assert mcc(mixed(table, seed=seed), table).score == pytest.approx(
        by_trying(mixed(table, seed=seed), table), abs=1e-12
    )


def test_spearman_correlates_ranks() -> None:
    table = sources(100)
    codes = np.round(mixed(table), 1)
    ranked = [np.column_stack([ranks(column) for column in part.T]) for part in (codes, table)]
    found = mcc(codes, table, correlation="spearman")
    assert found.score == pytest.approx(by_trying(*ranked), abs=1e-12)
    assert found.matrix[0, 0] == pytest.approx(abs(spearmanr(codes[:, 0], table[:, 0]).statistic), abs=1e-12)


def test_the_sources_themselves_score_one() -> None:
    table = sources()
    found = mcc((table * [3.0, -0.1, 1e6] + 7)[:, [2, 0, 1]], table)
    assert found.score == pytest.approx(1, abs=1e-12)
    assert found.by_factor == pytest.approx((1, 1, 1), abs=1e-12)


def test_ranks_are_invariant_to_monotone_functions() -> None:
    table = sources()
    assert mcc(np.exp(8 * table), table, correlation="spearman").score == pytest.approx(1, abs=1e-12)
    assert mcc(np.exp(8 * table), table).score < 0.8


def test_noise_scores_about_0() -> None:
    noise = np.random.default_rng(3).standard_normal((10_000, 3))
    # Correlations of independent columns have a standard deviation of .01 here.
    assert mcc(noise, sources(10_000)).score < 0.04


def test_a_rotation_lowers_the_score() -> None:
    table = sources(5000, 2)
    turn = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)
    assert mcc(table @ turn, table).score == pytest.approx(np.sqrt(0.5), abs=0.02)


def test_each_latent_is_matched_once() -> None:
    table = sources(5000, 2)
    noise = np.random.default_rng(1).random(5000)
    # One latent is both sources; the second has nothing but noise to be matched to.
    found = mcc(np.column_stack([table.sum(1), noise]), table)
    assert sorted(found.by_factor) == pytest.approx([0, np.sqrt(0.5)], abs=0.05)


def test_an_unmatched_source_scores_0() -> None:
    table = sources()
    found = mcc(table[:, :2], table)
    assert found.by_factor == pytest.approx((1, 1, 0), abs=1e-12)
    assert found.score == pytest.approx(2 / 3, abs=1e-12)


def test_a_latent_that_is_constant_correlates_with_nothing() -> None:
    table = sources(50)
    matrix = mcc(np.column_stack([np.full(50, 0.1), table]), table).matrix
    assert not matrix[0].any()
    assert np.diag(matrix[1:]) == pytest.approx([1, 1, 1], abs=1e-12)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_no_scale_overflows_or_vanishes(scale: float) -> None:
    table = sources(50)
    np.testing.assert_allclose(absolute_correlations(scale * table, table), absolute_correlations(table, table))


@settings(max_examples=25, deadline=None)
@given(
    order=st.permutations(range(4)),
    scales=st.lists(st.floats(0.01, 100) | st.floats(-100, -0.01), min_size=4, max_size=4),
    kind=st.sampled_from(["pearson", "spearman"]),
)
def test_order_and_sign_and_scale_of_latents_do_not_matter(order: list[int], scales: list[float], kind: str) -> None:
    table = sources(60)
    codes = mixed(table)
    moved = mcc((codes * scales)[:, order], table, correlation=kind)
    assert moved.score == pytest.approx(mcc(codes, table, correlation=kind).score, abs=1e-9)


def test_an_unknown_correlation_is_named() -> None:
    with pytest.raises(UnknownNameError, match="'kendall'"):
        mcc(sources(), sources(), correlation="kendall")


def test_gaps_between_whole_numbers_are_part_of_a_source() -> None:
    source = np.array([0, 1, 4, 9, 16] * 20)
    codes = source[:, None] * 2.0
    assert mcc(codes, source).score == pytest.approx(1)
    assert mcc(np.sqrt(codes), source).score == pytest.approx(abs(np.corrcoef(np.sqrt(source), source)[0, 1]))
