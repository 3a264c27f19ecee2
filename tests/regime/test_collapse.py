"""Collapse: rates, units and information against plain loops and known answers; sweeps and training histories."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vaescope.errors import ConfigurationError, DataError, VaescopeError
from vaescope.regime.collapse import (
    collapse,
    delta_kl,
    point_of_total_collapse,
    rate_distortion,
    settled_after,
    share_below,
)
from vaescope.regime.information import mutual_information_bound
from vaescope.regime.statistics import LatentStatistics


def some_codes(items: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two active latents, one between, one passive."""
    generator = np.random.default_rng(seed)
    mean = generator.standard_normal((items, 4)) * np.array([1, 0.8, 0.3, 0.01])
    variance = np.array([0.01, 0.02, 0.5, 1]) * generator.uniform(0.9, 1.1, (items, 4))
    return mean, variance


def plain_rate(mean: np.ndarray, variance: np.ndarray) -> list[float]:
    """The mean divergence of each latent from N(0, 1), one number at a time."""
    rates = []
    for j in range(mean.shape[1]):
        terms = [m * m + v - 1 - math.log(v) for m, v in zip(mean[:, j], variance[:, j], strict=True)]
        rates.append(0.5 * sum(terms) / len(terms))
    return rates


def test_rates_and_active_units_equal_a_plain_loop() -> None:
    mean, variance = some_codes()
    found, rates = collapse((mean, variance)), plain_rate(mean, variance)
    assert found.rates == pytest.approx(rates)
    assert found.rate == pytest.approx(sum(rates))
    assert found.rate_bits == pytest.approx(sum(rates) / math.log(2))
    assert found.active_units == tuple(j for j in range(4) if mean[:, j].var() > 0.01) == (0, 1, 2)
    assert found.share_collapsed == 0.25
    assert found.rows()[3] == {
        "latent": 3,
        "type": "passive",
        "rate_nats": pytest.approx(rates[3]),
        "rate_bits": pytest.approx(rates[3] / math.log(2)),
        "active_unit": False,
    }
    assert found.summary().endswith("3 of 4 units active, 25% of latents collapsed")


def test_tensors_and_statistics_give_the_same_collapse() -> None:
    mean, variance = some_codes()
    wanted = collapse((mean, variance)).rows()
    assert collapse((torch.from_numpy(mean), torch.from_numpy(variance))).rows() == wanted
    assert collapse(LatentStatistics.of(mean, variance)).rows() == wanted


def test_a_collapsed_posterior_has_no_rate() -> None:
    found = collapse((np.zeros((5, 3)), np.ones((5, 3))))
    assert (found.rate, found.active_units, found.share_collapsed) == (0, (), 1)


def plain_information(mean: np.ndarray, variance: np.ndarray, sample: np.ndarray) -> float:
    """log q(z_i | x_i) - log (1/n) sum_k q(z_i | x_k), averaged, with no logarithm of sums."""
    items, gains = len(mean), []
    for i in range(items):
        densities = [
            math.prod(
                math.exp(-((z - m) ** 2) / (2 * v)) / math.sqrt(2 * math.pi * v)
                for z, m, v in zip(sample[i], mean[k], variance[k], strict=True)
            )
            for k in range(items)
        ]
        gains.append(math.log(densities[i] / (sum(densities) / items)))
    return sum(gains) / items


def drawn(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return mean + np.sqrt(variance) * np.random.default_rng(9).standard_normal(mean.shape)


def test_the_information_equals_a_plain_loop() -> None:
    mean, variance = some_codes(60)
    sample = drawn(mean, variance)
    found = mutual_information_bound(mean, variance, sample)
    assert found.information == pytest.approx(plain_information(mean, variance, sample))
    assert found.rate == pytest.approx(sum(plain_rate(mean, variance)))
    assert found.aggregate_kl == pytest.approx(found.rate - found.information)
    again = mutual_information_bound(*(torch.from_numpy(part) for part in (mean, variance, sample)))
    assert again == found


def test_the_information_of_gaussian_codes_is_known() -> None:
    generator = np.random.default_rng(0)
    variance = np.full((3000, 2), 0.5)
    mean = generator.standard_normal((3000, 2)) * math.sqrt(
        0.5
    )  # Hence z is N(0, 1), and I(x; z) = 2 log(1 / 0.5) / 2.
    found = mutual_information_bound(mean, variance, drawn(mean, variance))
    assert found.information == pytest.approx(math.log(2), abs=4 * found.standard_error + 0.01)
    assert found.standard_error < 0.02
    assert found.aggregate_kl == pytest.approx(0, abs=0.05)
    assert not found.saturated


def test_codes_that_do_not_overlap_saturate_the_information() -> None:
    mean = np.arange(50.0)[:, None] * 100
    found = mutual_information_bound(mean, np.full_like(mean, 1e-6), mean)
    assert found.information == pytest.approx(math.log(50))
    assert found.information <= found.ceiling
    assert found.saturated
    assert "at least 3.91 nats" in found.summary()


def test_collapsed_codes_have_no_information() -> None:
    mean, variance = np.zeros((40, 3)), np.ones((40, 3))
    found = mutual_information_bound(mean, variance, drawn(mean, variance))
    assert found.information == pytest.approx(0, abs=1e-12)
    assert found.rate == 0


def test_a_passive_latent_adds_no_information() -> None:
    mean, variance = some_codes(80)
    sample = drawn(mean, variance)
    wanted = mutual_information_bound(mean, variance, sample).information
    wider = [
        np.hstack([part, extra])
        for part, extra in zip(
            (mean, variance, sample),
            (np.zeros((80, 1)), np.ones((80, 1)), np.random.default_rng(1).random((80, 1))),
            strict=True,
        )
    ]
    assert mutual_information_bound(*wider).information == pytest.approx(wanted)


def test_a_subset_is_evenly_spaced_and_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    mean, variance = some_codes(101)
    sample = drawn(mean, variance)
    found = mutual_information_bound(mean, variance, sample, items=51)
    assert found.items == 51
    assert found == mutual_information_bound(mean[::2], variance[::2], sample[::2])
    monkeypatch.setattr("vaescope.regime.information.BLOCK_NUMBERS", 1)
    assert found.rows()[0] == pytest.approx(mutual_information_bound(mean, variance, sample, items=51).rows()[0])


def test_rate_and_distortion_are_means_over_examples() -> None:
    point = rate_distortion(torch.tensor([1.0, 3.0]), np.array([80.0, 90.0]))
    assert (point.rate, point.distortion, point.negative_elbo) == (2, 85, 87)
    assert rate_distortion(2, 85.0) == point
    assert point.rows() == [{"rate": 2, "distortion": 85, "negative_elbo": 87}]
    assert point.summary() == "rate 2.00 nats, distortion 85.00 nats, ELBO -87.00 nats"


@pytest.mark.parametrize(
    ("betas", "passive", "wanted"),
    [
        ([0.5, 1, 5, 10, 20], [0, 2, 5, 10, 10], 10),
        ([20, 0.5, 10, 1, 5], [10, 0, 10, 2, 5], 10),
        ([1, 5, 10], [10, 9, 10], 10),  # A later recovery undoes an earlier collapse.
        ([1, 5, 10], [10, 10, 9], None),
        ([1, 5], [0, 3], None),
        ([1, 1, 5, 5, 10, 10], [0, 10, 10, 9, 10, 10], 10),  # Every seed of a beta must have collapsed.
        ([1, 5], [10, 10], 1),
    ],
)
def test_total_collapse_is_where_all_latents_stay_passive(betas: list, passive: list, wanted: float | None) -> None:
    found = point_of_total_collapse(betas, passive, 10)
    assert found.beta == wanted
    assert [row["beta"] for row in found.rows()] == sorted(betas)
    assert found.summary() == (
        f"no total collapse up to beta = {max(betas)}" if wanted is None else f"total collapse from beta = {wanted}"
    )


def test_runs_may_have_different_numbers_of_latents() -> None:
    assert point_of_total_collapse([1, 2], [4, 8], [5, 8]).beta == 2
    assert point_of_total_collapse(np.array([1.0, 2.0]), np.array([4, 8]), np.array([5, 8])).beta == 2


def plain_delta(mean: np.ndarray, variance: np.ndarray) -> float:
    """Equations 4, 10 and 30 of Rolinek et al., written out."""
    active = [j for j in range(mean.shape[1]) if math.sqrt(mean[:, j].var()) > 0.5]
    full = near = 0.0
    for m, v in zip(mean, variance, strict=True):
        full += 0.5 * sum(m[j] ** 2 + v[j] - math.log(v[j]) - 1 for j in range(len(m)))
        near += 0.5 * sum(m[j] ** 2 - math.log(v[j]) - 1 for j in active)
    return abs(full - near) / full


def test_delta_kl_equals_a_plain_loop() -> None:
    mean, variance = some_codes()
    found = delta_kl(mean, variance)
    assert found.active == (0, 1)
    assert found.value == pytest.approx(plain_delta(mean, variance))
    assert delta_kl(torch.from_numpy(mean), torch.from_numpy(variance), chunk=7).value == pytest.approx(found.value)
    assert found.rows()[0]["delta_kl"] == found.value
    assert found.summary().endswith("with 2 active latents")


def test_delta_kl_is_small_in_the_regime_1_without_active_latents_and_0_at_the_prior() -> None:
    generator = np.random.default_rng(0)
    mean = np.hstack([generator.standard_normal((500, 1)), np.zeros((500, 1))])
    assert delta_kl(mean, np.tile([0.001, 1.0], (500, 1))).value < 0.001
    assert delta_kl(0.1 * mean, np.full((500, 2), 0.5)).value == 1
    assert delta_kl(np.zeros((5, 2)), np.ones((5, 2))).value == 0


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([0.01, 0.02, 0.02, 0.01], 1.0),
        ([0.5, 0.02, 0.02, 0.01], 0.75),
        ([0.5, 0.01, 0.03, 0.01], 0.25),
        ([0.01, 0.01, 0.01, 0.04], 0.0),
    ],
)
def test_the_share_below_starts_after_the_last_value_above(values: list[float], wanted: float) -> None:
    assert share_below(values, [500, 1000, 1500, 2000]) == wanted
    assert share_below(np.array(values), np.array([500, 1000, 1500, 2000])) == wanted


@pytest.mark.parametrize(
    ("values", "within", "wanted"),
    [
        ([110, 60, 20, 9, 10], 0.1, 20),  # a fall of 100: within 10 of the end from step 30
        ([110, 60, 21, 9, 10], 0.1, 30),
        ([110, 60, 21, 9, 10], 0.5, 10),
        ([110, 9, 21, 9, 10], 0.1, 30),  # it settled once, and left again
        ([10, 60, 110, 110, 110], 0.1, 20),  # a rise settles as a fall does
        ([5, 5, 5, 5, 5], 0.1, 0),
    ],
)
def test_values_settle_where_they_no_longer_leave_the_neighbourhood_of_the_last(
    values: list[float], within: float, wanted: int
) -> None:
    assert settled_after(values, [10, 20, 30, 40, 50], within) == wanted


@given(st.lists(st.integers(-999, 999), min_size=2, max_size=9), st.sampled_from([0.0625, 0.25, 1]))
def test_settling_depends_on_neither_unit_nor_origin(values: list[int], within: float) -> None:
    steps = list(range(1, len(values) + 1))
    found = settled_after(values, steps, within)
    assert settled_after([4 * value + 3 for value in values], steps, within) == found
    assert found <= settled_after(values, steps, within / 2) < steps[-1]


GOOD = np.full((4, 2), 0.5)
ZERO = np.zeros((4, 2))
BAD: list[tuple[Any, tuple[Any, ...], str]] = [
    (mutual_information_bound, (GOOD, GOOD, GOOD[:3]), r"sample .*shape.* \(4, 2\), got \(3, 2\)"),
    (mutual_information_bound, (GOOD, ZERO, GOOD), "variance .*above 0"),
    (mutual_information_bound, (GOOD, -GOOD, GOOD), "variance must not be negative, got -0.5 for item 0, latent 0"),
    (mutual_information_bound, (GOOD, GOOD, GOOD * np.nan), "sample must be finite, got nan for item 0, latent 0"),
    (mutual_information_bound, (GOOD[:1], GOOD[:1], GOOD[:1]), "2 examples, got 1"),
    (mutual_information_bound, (GOOD, GOOD, "a"), "sample must hold real numbers, got type <U1"),
    (delta_kl, (GOOD, ZERO), "variance .*above 0"),
    (delta_kl, (GOOD, GOOD[:2]), "mean and variance .*shape"),
    (rate_distortion, (float("nan"), 1), "rate .*finite"),
    (rate_distortion, (1, []), "reconstruction .*at least one"),
    (point_of_total_collapse, ([1, 2], [3], 10), "got 2, 1 and 2"),
    (point_of_total_collapse, ([], [], 10), "got 0, 0 and 0"),
    (point_of_total_collapse, ([1], [11], 10), "got 11 of 10"),
    (point_of_total_collapse, ([1], [0.5], 10), "got 0.5 of 10"),
    (point_of_total_collapse, ([-1], [1], 10), "beta .* got -1"),
    (share_below, ([0.1], [1, 2]), "length.* got 1 and 2"),
    (share_below, ([], []), "length.* got 0 and 0"),
    (share_below, ([0.1, 0.1], [2, 1]), "steps must increase"),
    (share_below, ([0.1], [0]), "end above 0, got 0 to 0"),
    (share_below, ([float("nan")], [1]), "finite.* got nan"),
    (settled_after, ([0.1], [1, 2]), "length.* got 1 and 2"),
    (settled_after, ([float("inf"), 1], [1, 2]), "finite.* got inf"),
    (settled_after, ([2, 1], [1, 2], 0), "within .*above 0"),
]


@pytest.mark.parametrize(("function", "arguments", "message"), BAD, ids=range(len(BAD)))
def test_bad_input_is_named_in_one_line(function: Any, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(VaescopeError, match=message) as caught:
        function(*arguments)
    assert isinstance(caught.value, DataError | ConfigurationError)
    text = str(caught.value)
    assert text.endswith(".")
    assert "\n" not in text
