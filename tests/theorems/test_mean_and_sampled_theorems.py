"""Mean and sampled representations under the polarised regime (Bonheme, theorems 6.4.1-6.4.2 and section 8.3).

Limits are made exact: noise is whitened and made orthogonal to the means, so that moments of the sample are those of
the distribution, and active latents have the variance that the decoder's gamma -> 0 leaves them, 0.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from vaescope.numerics import information
from vaescope.regime.mean_and_sampled import mean_and_sampled

ITEMS = 240
SEEDS = st.integers(0, 10_000)
BRISK = settings(max_examples=40, deadline=None)


def exact_noise(generator: np.random.Generator, others: np.ndarray, columns: int) -> np.ndarray:
    """Noise of mean 0 and unbiased covariance I that is uncorrelated with the columns of `others`."""
    basis = np.concatenate([np.ones((len(others), 1)), others], axis=1)
    drawn = generator.normal(size=(len(others), columns))
    noise = np.linalg.qr(np.concatenate([basis, drawn], axis=1))[0][:, basis.shape[1] :]
    return noise * math.sqrt(len(others) - 1)


def polarised(seed: int, active: int, passive: int = 0, shares: tuple[float, ...] = ()) -> tuple[np.ndarray, ...]:
    """Means, variances and samples; a mixed latent is active for its share of the items and passive for the others.

    The noise of a mixed latent has mean 0 and mean square 1 over the items for which it is passive.
    """
    generator = np.random.default_rng(seed)
    mean = generator.normal(size=(ITEMS, active)) @ generator.normal(size=(active, active)) + 1
    noise = [np.zeros((ITEMS, active))]
    for share in shares:
        is_active = generator.permutation(ITEMS) < round(share * ITEMS)
        column = np.where(is_active, generator.normal(0.5, 1.5, ITEMS), 0.0)
        drawn = generator.normal(size=(~is_active).sum())
        drawn = (drawn - drawn.mean()) / drawn.std()
        mean = np.concatenate([mean, column[:, None]], axis=1)
        noise.append(np.zeros((ITEMS, 1)))
        noise[-1][~is_active, 0] = drawn
    mean = np.concatenate([mean, np.zeros((ITEMS, passive))], axis=1)
    sampled = mean + np.concatenate([*noise, np.zeros((ITEMS, passive))], axis=1)
    if passive:
        sampled[:, -passive:] = exact_noise(generator, sampled[:, :-passive], passive)
    return mean, sampled


def gap(seed: int, active: int, passive: int = 0, shares: tuple[float, ...] = ()) -> float:
    codes = polarised(seed, active, passive, shares)
    types = ["active"] * active + ["mixed"] * len(shares) + ["passive"] * passive
    return mean_and_sampled(codes, types).trace_difference


def mixed_gap(shares: tuple[float, ...]) -> float:
    """sum (1 - w): w the share of items for which the latent is active; h / (h - 1) because variances are unbiased."""
    return sum(1 - round(share * ITEMS) / ITEMS for share in shares) * ITEMS / (ITEMS - 1)


@BRISK
@given(SEEDS, st.integers(2, 6), st.integers(1, 4))
def test_theorem_6_4_1_an_independent_standard_coordinate_leaves_total_correlation_unchanged(
    seed: int, latents: int, passive: int
) -> None:
    factor = torch.from_numpy(np.random.default_rng(seed).normal(size=(latents, latents + 2)))
    wider = torch.block_diag(factor @ factor.T, torch.eye(passive, dtype=torch.float64))
    before = information.total_correlation(factor @ factor.T)
    assert information.total_correlation(wider) == pytest.approx(before, rel=1e-9, abs=1e-12)


@BRISK
@given(SEEDS, st.integers(2, 5), st.integers(1, 4))
def test_theorem_6_4_1_passive_latents_do_not_change_the_total_correlation_of_samples(
    seed: int, active: int, passive: int
) -> None:
    result = mean_and_sampled(polarised(seed, active, passive), ["active"] * active + ["passive"] * passive)
    alone = result.entry("sampled", "active").total_correlation
    assert result.entry("sampled").total_correlation == pytest.approx(alone, rel=1e-8, abs=1e-10)


def test_theorem_6_4_1_holds_for_drawn_noise_within_the_error_of_estimation() -> None:
    items, passive = 20_000, 3
    generator = np.random.default_rng(0)
    mean = np.concatenate([generator.normal(size=(items, 3)) @ np.diag([1, 1, 2.0]), np.zeros((items, 3))], axis=1)
    mean[:, 1] += mean[:, 0]
    sampled = mean + generator.normal(size=mean.shape) * [0.01, 0.01, 0.01, 1, 1, 1]
    result = mean_and_sampled((mean, sampled), ["active"] * 3 + ["passive"] * passive)
    full, alone = (result.entry("sampled", group) for group in ("full", "active"))
    assert full.total_correlation is not None
    assert alone.total_correlation is not None
    # -2 N log of the ratio of likelihoods is chi-squared with a degree for each pair: 9 active-passive, 3 passive.
    excess = 2 * items * (full.total_correlation - alone.total_correlation)
    assert 0 <= excess < 33  # the 0.999 quantile for 12 degrees of freedom
    assert alone.total_correlation > 0.3
    assert full.averaged_mutual_information < alone.averaged_mutual_information
    assert result.trace_difference == pytest.approx(passive, abs=0.1)


@BRISK
@given(SEEDS, st.integers(2, 4), st.integers(2, 4))
def test_theorem_6_4_2_a_coordinate_without_information_lowers_the_average_exactly(
    seed: int, latents: int, values: int
) -> None:
    codes = torch.from_numpy(np.random.default_rng(seed).integers(0, 4, (30, latents)))
    before = information.averaged_mutual_information(information.mutual_information_matrix(codes, 4))
    assume(before > 0)
    # Every row is paired with every value of the new coordinate: independence is exact.
    crossed = torch.cat([codes.repeat_interleave(values, 0), torch.arange(values).repeat(len(codes))[:, None]], dim=1)
    matrix = information.mutual_information_matrix(crossed, 4)
    assert not matrix[-1, :-1].any()
    after = information.averaged_mutual_information(matrix)
    assert after < before
    assert after == pytest.approx(before * (latents - 1) / (latents + 1), rel=1e-12)


@BRISK
@given(SEEDS, st.integers(1, 6))
def test_proposition_8_3_1_active_latents_make_no_difference(seed: int, active: int) -> None:
    assert gap(seed, active) == 0


@BRISK
@given(SEEDS, st.integers(1, 5), st.integers(1, 5))
def test_proposition_8_3_2_each_passive_latent_adds_one(seed: int, active: int, passive: int) -> None:
    assert gap(seed, active, passive) == pytest.approx(passive, rel=1e-9)


SHARES = st.lists(st.floats(0.05, 0.95), min_size=1, max_size=4).map(tuple)


@BRISK
@given(SEEDS, st.integers(1, 4), SHARES)
def test_proposition_8_3_3_mixed_latents_add_their_passive_shares(
    seed: int, active: int, shares: tuple[float, ...]
) -> None:
    found = gap(seed, active, 0, shares)
    assert found == pytest.approx(mixed_gap(shares), rel=1e-9)
    assert 0 < found < len(shares)


@BRISK
@given(SEEDS, st.integers(1, ITEMS - 1))
def test_equations_8_19_and_8_26_are_the_variance_of_a_mixture_without_the_factor_w(seed: int, active: int) -> None:
    generator = np.random.default_rng(seed)
    used, rest = generator.normal(2, 1, active), generator.normal(size=ITEMS - active)
    rest -= rest.mean()
    share = active / ITEMS
    for passive in (rest, np.zeros_like(rest)):  # samples, and means
        column = np.concatenate([used, passive])
        within = share * used.var() + (1 - share) * passive.var()
        first, second = share * (used.mean() - column.mean()) ** 2, (1 - share) * column.mean() ** 2
        assert first + second + within == pytest.approx(column.var(), rel=1e-9)
        assert column.var() - (first + share * second + within) == pytest.approx((1 - share) * second, rel=1e-6)


@BRISK
@given(SEEDS, st.integers(1, 5), st.one_of(st.just(()), SHARES.map(lambda shares: shares[:1])))
def test_theorem_8_3_1_the_first_latent_that_is_not_active_makes_the_first_difference(
    seed: int, active: int, mixed: tuple[float, ...]
) -> None:
    assert gap(seed, active) == 0
    beyond = gap(seed, active, 0 if mixed else 1, mixed)
    assert 0 < beyond <= 1 + 1e-9
    assert (beyond == pytest.approx(1, rel=1e-9)) == (not mixed)


@BRISK
@given(SEEDS, st.integers(1, 4), st.one_of(st.just(()), SHARES))
def test_theorem_8_3_2_the_first_passive_latent_adds_one_to_the_difference(
    seed: int, active: int, mixed: tuple[float, ...]
) -> None:
    latents = active + len(mixed)
    before, beyond = gap(seed, active, 0, mixed), gap(seed, active, 1, mixed)
    assert 0 <= before < latents
    assert (before == 0) == (not mixed)
    assert beyond == pytest.approx(before + 1, rel=1e-9)
    assert 1 - 1e-9 <= beyond < latents + 1


def test_theorem_8_3_2_the_bounds_do_not_imply_that_a_latent_is_passive() -> None:
    """The proof goes from the types to the bounds; three mixed latents show that the converse is false."""
    two, three = gap(0, 1, 0, (0.4, 0.4)), gap(0, 1, 0, (0.4, 0.4, 0.4))
    assert 0 <= two < 3
    assert 1 <= three < 4
