"""Mutual information gaps: the definition item by item, scikit-learn's estimates, and their invariances."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mutual_info_score

from reference import reference_mig
from vaescope.metrics.inputs import metric_inputs
from vaescope.metrics.mutual_information import information_matrix, mig, mig_sup
from vaescope.numerics.information import discretise

CLASSES = (3, 6, 8)


def world(items: int = 2000, seed: int = 0, classes: tuple[int, ...] = CLASSES) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.stack([generator.integers(0, count, items) for count in classes], 1)


def mixed(factors: np.ndarray, seed: int = 0, latents: int = 5) -> np.ndarray:
    """Latents that are noisy random mixtures of the factors."""
    generator = np.random.default_rng((seed, 1))
    weights = generator.standard_normal((factors.shape[1], latents))
    return factors @ weights + generator.standard_normal((len(factors), latents))


@pytest.mark.parametrize("bins", [5, 20])
@pytest.mark.parametrize("name", ["mig", "mig_sup"])
def test_both_gaps_follow_their_definitions(name: str, bins: int) -> None:
    factors = world(500)
    codes = mixed(factors)
    found = {"mig": mig, "mig_sup": mig_sup}[name](codes, factors, bins=bins)
    assert found.score == pytest.approx(getattr(reference_mig, name)(codes, factors, bins), abs=1e-12)


def test_the_informations_are_those_of_scikit_learn() -> None:
    factors = world()
    codes = mixed(factors)
    matrix, entropies = information_matrix(metric_inputs(codes, factors), 20)
    edges = [np.histogram(column, 20)[1][:-1] for column in codes.T]
    rows = [np.digitize(column, own) for column, own in zip(codes.T, edges, strict=True)]
    expected = [[mutual_info_score(row, column) for column in factors.T] for row in rows]
    np.testing.assert_allclose(matrix, expected, atol=1e-9)
    np.testing.assert_allclose(entropies, [mutual_info_score(column, column) for column in factors.T], atol=1e-9)


def test_a_continuous_factor_falls_into_bins() -> None:
    generator = np.random.default_rng(0)
    source = generator.random(3000)
    codes = np.stack([source, generator.random(3000)], 1)
    binned = discretise(torch.from_numpy(source[:, None]), 20).numpy()
    assert mig(codes, source).score == pytest.approx(mig(codes, binned).score, abs=1e-12)
    assert mig(codes, source).score > 0.9


def test_one_latent_for_each_factor_scores_one_in_both_directions() -> None:
    factors = world(20000)
    assert mig(factors * [2.0, -3.0, 0.1], factors).score == pytest.approx(1, abs=0.01)
    assert mig_sup(factors * [2.0, -3.0, 0.1], factors).score == pytest.approx(1, abs=0.01)


def test_a_factor_in_two_latents_lowers_mig_but_not_mig_sup() -> None:
    factors = world(20000)
    codes = np.column_stack([factors, factors[:, 0]])
    assert mig(codes, factors).by_factor == pytest.approx((0, 1, 1), abs=0.01)
    assert mig_sup(codes, factors).score == pytest.approx(1, abs=0.01)


def test_two_factors_in_one_latent_lower_mig_sup() -> None:
    factors = world(20000, classes=(3, 3))
    codes = np.column_stack([factors[:, 0] + 3.0 * factors[:, 1]])
    assert mig_sup(codes, factors).score == pytest.approx(0, abs=0.01)
    assert mig(codes, factors).score == pytest.approx(1, abs=0.01)


def test_noise_scores_about_0() -> None:
    factors = world(20000)
    noise = np.random.default_rng(1).standard_normal((20000, 5))
    assert mig(noise, factors).score < 0.005
    assert mig_sup(noise, factors).score < 0.005


def test_rotating_perfect_codes_lowers_the_score() -> None:
    factors = world(5000, classes=(8, 8))
    turn = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)
    assert mig(factors @ turn, factors).score < 0.1 < 0.9 < mig(factors, factors).score


def test_mig_sup_of_a_single_factor_is_its_information() -> None:
    factors = world(5000)[:, :1]
    found = mig_sup(mixed(factors, latents=2), factors)
    shares = found.matrix[:, 0] / information_matrix(metric_inputs(factors, factors), 20)[1][0]
    assert found.score == pytest.approx(shares.mean(), abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    order=st.permutations(range(5)),
    powers=st.lists(st.integers(-8, 8), min_size=5, max_size=5),
    signs=st.integers(0, 31),
)
def test_order_and_sign_and_scale_of_latents_do_not_matter(order: list[int], powers: list[int], signs: int) -> None:
    factors = world(400)
    codes = mixed(factors)
    # Powers of two keep every value on its side of a bin's edge.
    scales = np.array([2.0**power * (1 - 2 * (signs >> place & 1)) for place, power in enumerate(powers)])
    for metric in (mig, mig_sup):
        assert metric((codes * scales)[:, order], factors).score == pytest.approx(
            metric(codes, factors).score, abs=1e-9
        )


def test_the_matrix_has_a_row_for_each_latent_and_a_column_for_each_factor() -> None:
    factors = world()
    found = mig(mixed(factors), factors, names=("a", "b", "c"))
    assert found.matrix.shape == (5, 3)
    assert found.factors == ("a", "b", "c")
    assert len(found.by_factor) == 3
    assert mig_sup(mixed(factors), factors).by_factor is None
