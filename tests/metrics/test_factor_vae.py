"""The FactorVAE score against plain loops over the same draws, and known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaescope.errors import ConfigurationError, DataError, UnknownNameError
from vaescope.metrics import sampling
from vaescope.metrics.fixed_factor import PROTOCOLS, factor_vae, variances
from vaescope.metrics.sampling import ItemSampler

Drawn = list[tuple[int, list[int]]]


def plain_variance(numbers: list[float]) -> float:
    mean = math.fsum(numbers) / len(numbers)
    return math.fsum((number - mean) ** 2 for number in numbers) / (len(numbers) - 1)


def plain_votes(codes: np.ndarray, drawn: Drawn, kept: list[int], spread: list[float]) -> list[int]:
    winners = []
    for _, items in drawn:
        ratios = [plain_variance([codes[item, latent] for item in items]) / spread[latent] for latent in kept]
        winners.append(kept[ratios.index(min(ratios))])
    return winners


def plain_score(codes: np.ndarray, train: Drawn, test: Drawn, factors: int, prune: float) -> tuple[float, float]:
    spread = [plain_variance(column.tolist()) for column in codes.T]
    kept = [latent for latent, variance in enumerate(spread) if math.sqrt(variance) >= prune]
    counts = [[0] * factors for _ in spread]
    winners = plain_votes(codes, train, kept, spread)
    for winner, (factor, _) in zip(winners, train, strict=True):
        counts[winner][factor] += 1
    majority = [row.index(max(row)) for row in counts]

    def accuracy(votes: list[int], drawn: Drawn) -> float:
        return sum(majority[vote] == factor for vote, (factor, _) in zip(votes, drawn, strict=True)) / len(drawn)

    return accuracy(winners, train), accuracy(plain_votes(codes, test, kept, spread), test)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """The factor and the items of every vote, in the order in which they are drawn."""
    votes: Drawn = []

    class Recorded(ItemSampler):
        def draw_sharing(self, fixed: np.ndarray, anchors: np.ndarray, uniform: np.ndarray) -> np.ndarray:
            found = super().draw_sharing(fixed, anchors, uniform)
            votes.extend(zip(fixed[:, 0].tolist(), found.tolist(), strict=True))
            return found

    monkeypatch.setattr(sampling, "ItemSampler", Recorded)
    return votes


def some_factors(items: int = 1000, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.stack([generator.integers(count, size=items) for count in (3, 4, 6, 10)], axis=1)


def blurred(factors: np.ndarray, seed: int = 1) -> np.ndarray:
    """Codes in which every latent depends on every factor, with noise; some votes are wrong."""
    generator = np.random.default_rng(seed)
    standard = (factors - factors.mean(0)) / factors.std(0)
    mixed = standard @ generator.standard_normal((4, 4))
    return np.concatenate((mixed, generator.standard_normal((len(factors), 2)), np.full((len(factors), 1), 0.3)), 1)


def perfect(factors: np.ndarray) -> np.ndarray:
    return (factors - factors.mean(0)) / factors.std(0)


@pytest.mark.parametrize("batch", [2, 17, 64])
def test_votes_and_scores_are_those_of_plain_loops(drawn: Drawn, batch: int) -> None:
    factors = some_factors()
    codes = blurred(factors)
    score = factor_vae(codes, factors, train_votes=150, test_votes=80, batch=batch, seed=3)
    train, test = plain_score(codes, drawn[:150], drawn[150:], 4, 0.05)
    assert (score.parts["train_accuracy"], score.score) == (train, test)
    assert score.parts["latents_kept"] == 6
    assert 0.2 < test < 1


def test_votes_share_the_value_of_their_factor(drawn: Drawn) -> None:
    factors = some_factors()
    factor_vae(blurred(factors), factors, train_votes=200, test_votes=100)
    assert len(drawn) == 300
    assert {factor for factor, _ in drawn} == {0, 1, 2, 3}
    for factor, items in drawn:
        assert len(items) == 64
        assert len(set(factors[items, factor].tolist())) == 1


def test_mathieus_protocol_scores_the_votes_it_learned_from(drawn: Drawn) -> None:
    factors = some_factors()
    codes = blurred(factors)[:, :6]
    codes[:, 5] *= 1e-3
    score = factor_vae(codes, factors, protocol="mathieu", train_votes=100, batch=30)
    train, _ = plain_score(codes, drawn, drawn, 4, 0.0)
    assert score.score == score.parts["train_accuracy"] == train
    assert score.parts["latents_kept"] == 6


def test_the_protocols_are_the_published_ones() -> None:
    usual, mathieu = (PROTOCOLS[name] for name in ("dlib", "mathieu"))
    assert (usual.train_votes, usual.test_votes, usual.batch, usual.prune) == (10_000, 5_000, 64, 0.05)
    assert (mathieu.train_votes, mathieu.test_votes, mathieu.batch, mathieu.prune) == (20_000, 0, 1_000, 0)


def test_blocks_of_votes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    factors = some_factors()
    whole = factor_vae(blurred(factors), factors, train_votes=500, test_votes=300)
    monkeypatch.setattr(sampling, "MAX_BLOCK_ITEMS", 64 * 7)
    parts = factor_vae(blurred(factors), factors, train_votes=500, test_votes=300)
    assert parts == whole
    np.testing.assert_array_equal(parts.matrix, whole.matrix)


def test_one_latent_for_each_factor_is_perfect() -> None:
    factors = some_factors()
    score = factor_vae(perfect(factors), factors)
    assert score.score == 1
    assert score.by_factor == (1, 1, 1, 1)
    assert score.matrix is not None
    np.testing.assert_array_equal(score.matrix > 0, np.eye(4, dtype=bool))
    assert score.matrix.sum() == 10_000


def test_noise_scores_chance() -> None:
    factors = some_factors(5000)
    score = factor_vae(np.random.default_rng(0).standard_normal((5000, 10)), factors, scale=True)
    assert score.perfect == 1
    # 1 / factors, with five standard errors of a share of 5,000 votes and what ten majorities find by chance.
    bound = 5 * math.sqrt(0.25 * 0.75 / 5000) + 0.03
    assert abs(score.score - 0.25) < bound
    assert score.random is not None
    assert abs(score.random - 0.25) < bound


def test_rotated_codes_score_less() -> None:
    factors = some_factors()
    rotation = np.linalg.qr(np.random.default_rng(5).standard_normal((4, 4)))[0]
    assert factor_vae(perfect(factors) @ rotation, factors).score < 0.95


@settings(max_examples=20, deadline=None)
@given(order=st.permutations(range(6)), signs=st.lists(st.sampled_from([-4.0, -1.0, 0.5, 8.0]), min_size=6, max_size=6))
def test_order_sign_and_scale_of_latents_do_not_matter(order: list[int], signs: list[float]) -> None:
    factors = some_factors(300)
    codes = blurred(factors)[:, :6]
    before = factor_vae(codes, factors, train_votes=300, test_votes=200)
    after = factor_vae(codes[:, order] * signs, factors, train_votes=300, test_votes=200)
    assert after.score == before.score
    np.testing.assert_array_equal(after.matrix, before.matrix[order])  # type: ignore[index]


def test_a_latent_below_the_threshold_gets_no_votes() -> None:
    factors = some_factors()
    codes = perfect(factors) * [1, 1, 1, 0.049]
    score = factor_vae(codes, factors)
    assert score.parts["latents_kept"] == 3
    assert score.score < 1
    assert factor_vae(codes, factors, prune=0.04).score == 1


def test_without_latents_the_score_is_0() -> None:
    factors = some_factors()
    for codes in (perfect(factors) * 0.01, np.full((1000, 3), 0.1)):
        score = factor_vae(codes, factors, scale=True)
        assert (score.score, score.parts) == (0, {"train_accuracy": 0, "latents_kept": 0})
        assert score.by_factor == (0, 0, 0, 0)
        assert score.perfect == 1
    assert factor_vae(np.full((1000, 3), 0.1), factors, protocol="mathieu").parts["latents_kept"] == 0


def test_the_seed_decides_the_votes() -> None:
    factors = some_factors()
    first, again, other = (
        factor_vae(blurred(factors), factors, train_votes=500, seed=seed).matrix for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_halves_give_an_interval() -> None:
    factors = some_factors()
    score = factor_vae(blurred(factors), factors, train_votes=500, test_votes=500, half_samples=5)
    assert score.interval is not None
    assert score.interval[0] < score.score < score.interval[1]


def test_a_single_factor_is_refused() -> None:
    factors = some_factors()
    with pytest.raises(DataError, match=r"at least 2.*'shape'"):
        factor_vae(blurred(factors), factors[:, 0], names=["shape"])


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"protocol": "kim"}, UnknownNameError, "'kim'"),
        ({"batch": 1}, ConfigurationError, "batch"),
        ({"train_votes": 0}, ConfigurationError, "train_votes"),
        ({"prune": -1.0}, ConfigurationError, "prune"),
    ],
)
def test_a_wrong_setting_is_named(wrong: dict, error: type[Exception], message: str) -> None:
    factors = some_factors()
    with pytest.raises(error, match=message):
        factor_vae(blurred(factors), factors, **wrong)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 1000), size=st.integers(2, 40), offset=st.sampled_from([0.0, 1.0, 1e4]))
def test_variances_equal_those_of_numpy(seed: int, size: int, offset: float) -> None:
    batches = np.random.default_rng(seed).standard_normal((7, size)) + offset
    np.testing.assert_allclose(variances(batches), batches.var(1, ddof=1), rtol=1e-6, atol=1e-12)
    np.testing.assert_array_equal(variances(np.full((3, size), 0.1 + offset)), 0)
