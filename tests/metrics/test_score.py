"""Scores: intervals as wide as the spread over other items, the scale, rows and the summary."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vaescope.errors import ConfigurationError
from vaescope.metrics import Score, mig
from vaescope.metrics.inputs import MetricInputs, metric_inputs
from vaescope.metrics.score import NORMAL_95, RawScore, evaluate
from vaescope.metrics.single_latent import mcc, neighbours


def world(items: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes that mix two factors with noise."""
    generator = np.random.default_rng((seed, 5))
    factors = generator.integers(0, 6, (items, 2))
    turn = np.array([[1.0, 0.4], [-0.4, 1.0]])
    return factors @ turn + generator.standard_normal((items, 2)), factors


def test_the_interval_is_as_wide_as_scores_of_other_items_spread() -> None:
    spread = np.std([mig(*world(500, seed)).score for seed in range(300)], ddof=1)
    widths = []
    for seed in range(5):
        low, high = mig(*world(500, seed), half_samples=80).interval
        widths.append((high - low) / (2 * NORMAL_95))
    # The spread of 300 scores is known within 4%, that of 5 x 80 halves within 4% and what the 5 sets add: 25% is far.
    assert np.mean(widths) == pytest.approx(spread, rel=0.25)


def test_the_interval_of_a_correlation_has_the_width_of_theory() -> None:
    generator = np.random.default_rng(0)
    source = generator.standard_normal(2000)
    codes = (0.5 * source + math.sqrt(0.75) * generator.standard_normal(2000))[:, None]
    found = mcc(codes, source, half_samples=200)
    low, high = found.interval
    assert (low + high) / 2 == pytest.approx(found.score, abs=1e-12)
    # The standard error of a correlation r is (1 - r^2) / sqrt(items); that of 200 halves is known within 5%.
    assert (high - low) / (2 * NORMAL_95) == pytest.approx((1 - found.score**2) / math.sqrt(2000), rel=0.2)


def test_an_interval_is_computed_only_on_request() -> None:
    assert mig(*world(100, 0)).interval is None
    assert mig(*world(100, 0), half_samples=2).interval is not None


@pytest.mark.parametrize("count", [1, -1, 2.5, True])
def test_half_samples_must_be_none_or_several(count: object) -> None:
    with pytest.raises(ConfigurationError, match="half_samples"):
        mig(*world(100, 0), half_samples=count)


def test_each_half_holds_half_of_the_items_without_repetition() -> None:
    seen = []

    def measure(data: MetricInputs, seed: int) -> RawScore:
        seen.append(data.codes[:, 0])
        return RawScore(float(data.codes.mean()))

    codes = np.arange(101.0)[:, None]
    evaluate("mean", "a mean", measure, codes, np.arange(101), discrete=True, half_samples=3)
    assert [len(part) for part in seen] == [101, 50, 50, 50]
    assert all(len(set(part)) == len(part) for part in seen)
    assert not np.array_equal(seen[1], seen[2])


def test_the_same_seed_gives_the_same_result_and_another_seed_another_result() -> None:
    codes, factors = world(300, 0)
    first, again, other = (neighbours(codes, factors, half_samples=3, scale=True, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert (first.score, first.interval, first.random) != (other.score, other.interval, other.random)


def test_the_scale_has_the_scores_of_noise_and_of_the_factors() -> None:
    codes, factors = world(3000, 0)
    found = mig(codes, factors, scale=True)
    assert found.perfect == pytest.approx(mig(factors, factors).score, abs=1e-9)
    assert found.perfect > 0.99
    assert 0 <= found.random < 0.02
    assert found.random < found.score < found.perfect


def test_the_scale_is_computed_only_on_request() -> None:
    found = mig(*world(100, 0))
    assert (found.random, found.perfect) == (None, None)


def test_rows_have_the_score_and_each_factor() -> None:
    found = mig(*world(200, 0), names=("shape", "scale"), half_samples=2, scale=True)
    whole, *own = found.rows()
    assert (whole["metric"], whole["factor"], whole["score"]) == ("mig", None, found.score)
    assert (whole["low"], whole["high"]) == found.interval
    assert (whole["random"], whole["perfect"]) == (found.random, found.perfect)
    assert own == [
        {"metric": "mig", "factor": name, "score": score}
        for name, score in zip(("shape", "scale"), found.by_factor, strict=True)
    ]


def test_parts_are_columns_of_the_first_row() -> None:
    rows = Score("dci", 0.5, "trees", {"completeness": 0.25}, factors=("shape",)).rows()
    assert len(rows) == 1
    assert rows[0]["completeness"] == 0.25
    assert (rows[0]["low"], rows[0]["high"]) == (None, None)


def test_the_summary_says_what_is_known() -> None:
    plain = Score("mig", 0.51234, "bins")
    assert plain.summary() == "mig 0.512"
    whole = Score("dci", 0.5, "trees", {"test_accuracy": 0.25}, interval=(0.4, 0.6), random=0.01, perfect=1.0)
    assert whole.summary() == (
        "dci 0.500 (0.400 to 0.600), test accuracy 0.250; noise scores 0.010, the factors themselves 1.000"
    )


def test_a_score_names_its_factors_and_latents() -> None:
    codes, factors = world(100, 0)
    found = mig(codes, factors, names=("a", "b"), exclude="passive", types=["passive", "active"])
    assert (found.factors, found.latents) == (("a", "b"), (1,))


def test_measures_are_given_the_items_and_the_seed() -> None:
    given = []

    def measure(data: MetricInputs, seed: int) -> RawScore:
        given.append((data, seed))
        return RawScore(0.5, {"part": 1.0}, (0.25,), np.eye(1))

    codes, factors = np.arange(10.0)[:, None], np.arange(10)
    found = evaluate("mine", "my way", measure, codes, factors, seed=9)
    assert given[0][1] == 9
    np.testing.assert_array_equal(given[0][0].codes, metric_inputs(codes, factors).codes)
    assert (found.metric, found.estimator, found.score, found.parts) == ("mine", "my way", 0.5, {"part": 1.0})
    assert found.by_factor == (0.25,)
    np.testing.assert_array_equal(found.matrix, np.eye(1))
