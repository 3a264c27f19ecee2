"""Statistics of latents: a plain loop, and codes in any chunks, storage and order."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from vaescope.errors import ConfigurationError, DataError
from vaescope.numerics.moments import Spread
from vaescope.regime.statistics import VARIANCE_BINS, LatentStatistics, PriorUnits

ALPHA, EPSILON = 0.1, 0.01


def some_codes(items: int = 200, latents: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Float32 codes of which some are passive, some active, some neither."""
    generator = np.random.default_rng(seed)
    scale = generator.choice([0.02, 1.0], (items, latents))
    mean = generator.standard_normal((items, latents)) * scale
    variance = np.where(scale < 1, 1 + 0.1 * generator.standard_normal((items, latents)), 1.5 * scale * 0.1)
    return mean.astype(np.float32), np.abs(variance).astype(np.float32)


def a_prior(items: int = 200, latents: int = 4) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(1)
    return generator.standard_normal((items, latents)) * 0.05, generator.uniform(0.2, 3, (items, latents))


def plain(mean: np.ndarray, variance: np.ndarray, prior: Any = None) -> dict[str, list[Any]]:
    """The definitions, one number at a time."""
    names = (
        "mean_mean",
        "mean_variance",
        "variance_mean",
        "variance_variance",
        "kl",
        "negligible",
        "passive",
        "active",
        "bins",
    )
    found: dict[str, list[Any]] = {name: [] for name in (*names, "ratio_mean", "distance")}
    for j in range(mean.shape[1]):
        kl, negligible, passive, active, distances, ratios, bins = 0.0, 0, 0, 0, 0.0, [], [0] * 21
        for i in range(len(mean)):
            m, v = float(mean[i, j]), float(variance[i, j])
            a, b = (0.0, 1.0) if prior is None else (float(prior[0][i, j]), float(prior[1][i, j]))
            one = 0.5 * (v / b + (m - a) ** 2 / b - 1 - math.log(v / b))
            kl += one
            negligible += one < EPSILON
            passive += abs(m - a) / math.sqrt(b) <= ALPHA and abs(v / b - 1) <= ALPHA
            active += v / b <= ALPHA
            bins[min(20, math.floor(v / b * 20))] += 1
            distances += (m - a) ** 2 / b
            ratios.append(v / b)
        m, v = mean[:, j].astype(float), variance[:, j].astype(float)
        values = (np.mean(m), np.var(m), np.mean(v), np.var(v), kl, negligible, passive, active, bins, np.mean(ratios))
        for name, value in zip(found, (*values, distances), strict=True):
            found[name].append(value)
    return found


@pytest.mark.parametrize("prior", [None, a_prior()])
def test_every_statistic_equals_a_plain_loop(prior: Any) -> None:
    mean, variance = some_codes()
    found, wanted = LatentStatistics.of(mean, variance, prior=prior, chunk=37), plain(mean, variance, prior)
    assert found.count == len(mean)
    assert found.latents == mean.shape[1]
    for name, spread in (("mean", found.mean), ("variance", found.variance)):
        np.testing.assert_allclose(spread.mean, wanted[f"{name}_mean"], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(spread.variance, wanted[f"{name}_variance"], rtol=1e-12)
    np.testing.assert_allclose(found.kl, wanted["kl"], rtol=1e-12)
    np.testing.assert_allclose(found.rate, np.divide(wanted["kl"], len(mean)), rtol=1e-12)
    assert found.negligible.tolist() == wanted["negligible"]
    assert found.passive.tolist() == wanted["passive"]
    assert found.active.tolist() == wanted["active"]
    assert sum(wanted["passive"]) > 0
    assert found.histogram.tolist() == wanted["bins"]
    if prior is not None:
        assert found.prior is not None
        np.testing.assert_allclose(found.prior.variance.mean, wanted["ratio_mean"], rtol=1e-12)
        squares = found.prior.mean.variance + found.prior.mean.mean.square()
        np.testing.assert_allclose(squares * found.count, wanted["distance"], rtol=1e-12)


def same(one: LatentStatistics, two: LatentStatistics, tolerance: float = 1e-12) -> None:
    """Counts exactly, sums to rounding."""
    for field in fields(one):
        a, b = (_numbers_in(getattr(x, field.name)) for x in (one, two))
        for left, right in zip(a, b, strict=True):
            if isinstance(left, torch.Tensor) and left.is_floating_point():
                torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance)
            else:
                assert np.array_equal(left, right), field.name


def _numbers_in(value: Any) -> list[Any]:
    if isinstance(value, Spread | PriorUnits):
        return [number for part in vars(value).values() for number in _numbers_in(part)]
    return [value]


@st.composite
def cut_codes(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, list[int]]:
    shape = draw(st.tuples(st.integers(2, 30), st.integers(1, 4)))
    mean = draw(arrays.arrays(np.float64, shape, elements=st.floats(-10, 10)))
    variance = draw(arrays.arrays(np.float64, shape, elements=st.floats(1e-6, 4)))
    return mean, variance, sorted(draw(st.lists(st.integers(0, shape[0]), max_size=6)))


@settings(max_examples=100, deadline=None)
@given(cut_codes(), st.randoms(use_true_random=False))
def test_chunks_of_any_size_merged_in_any_order_give_the_same_statistics(
    data: tuple[np.ndarray, np.ndarray, list[int]], random: Any
) -> None:
    mean, variance, cuts = data
    whole = LatentStatistics.of(mean, variance)
    chunks = list(zip(np.split(mean, cuts), np.split(variance, cuts), strict=True))
    same(LatentStatistics.over(chunks), whole, 1e-10)
    filled = [LatentStatistics.of(*chunk) for chunk in chunks if len(chunk[0])]
    random.shuffle(filled)
    total = filled[0]
    for part in filled[1:]:
        total = total.merge(part)
    same(total, whole, 1e-10)
    same(LatentStatistics.of(mean, variance, chunk=random.randint(1, 40)), whole, 1e-10)


def test_the_order_of_items_does_not_matter() -> None:
    mean, variance = some_codes()
    order = np.random.default_rng(2).permutation(len(mean))
    same(LatentStatistics.of(mean[order], variance[order]), LatentStatistics.of(mean, variance))


STORED = {
    "numpy float64": lambda x: x.astype(np.float64),
    "other byte order": lambda x: x.astype(">f4"),
    "read-only": lambda x: np.lib.stride_tricks.as_strided(x, writeable=False),
    "columns first": np.asfortranarray,
    "torch float32": lambda x: torch.from_numpy(x),
    "torch float64": lambda x: torch.from_numpy(x).double(),
    "torch with gradient": lambda x: torch.from_numpy(x).clone().requires_grad_(),
}


@pytest.mark.parametrize("store", STORED.values(), ids=STORED)
def test_the_same_values_give_the_same_statistics_however_stored(store: Any) -> None:
    mean, variance = some_codes()
    same(LatentStatistics.of(store(mean), store(variance)), LatentStatistics.of(mean, variance), 0)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_codes_are_summed_in_double(kind: torch.dtype) -> None:
    mean, variance = (torch.from_numpy(part).to(kind) for part in some_codes())
    same(LatentStatistics.of(mean, variance), LatentStatistics.of(mean.double(), variance.double()), 0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
def test_codes_on_an_accelerator_give_the_same_statistics_on_the_cpu() -> None:
    mean, variance = (torch.from_numpy(part) for part in some_codes())
    found = LatentStatistics.of(mean.cuda(), variance.cuda())
    assert found.kl.device.type == "cpu"
    same(found, LatentStatistics.of(mean, variance))


def test_a_standard_normal_prior_changes_nothing() -> None:
    mean, variance = some_codes()
    found = LatentStatistics.of(mean, variance, prior=(np.zeros(4), torch.ones(4)))
    wanted = LatentStatistics.of(mean, variance)
    torch.testing.assert_close(found.kl, wanted.kl)
    assert torch.equal(found.passive, wanted.passive)
    assert torch.equal(found.active, wanted.active)
    assert torch.equal(found.histogram, wanted.histogram)


def test_chunks_may_have_priors() -> None:
    (mean, variance), prior = some_codes(), a_prior()
    parts = [(mean[s], variance[s], (prior[0][s], prior[1][s])) for s in (slice(0, 80), slice(80, 200))]
    same(LatentStatistics.over(parts), LatentStatistics.of(mean, variance, prior=prior))


def test_a_variance_far_from_zero_keeps_its_digits() -> None:
    mean = 1e6 + np.array([[0.0], [1.0], [2.0], [3.0]])
    found = LatentStatistics.of(mean, np.ones_like(mean), chunk=1)
    assert found.mean.variance.item() == pytest.approx(1.25, rel=1e-9)


def test_variances_of_at_least_one_share_the_last_bin() -> None:
    variance = np.array([[0.0], [0.05], [0.999], [1.0], [7.0]])
    counts = LatentStatistics.of(np.zeros_like(variance), variance).histogram[0].tolist()
    assert len(counts) == VARIANCE_BINS + 1
    assert (counts[0], counts[1], counts[19], counts[20]) == (1, 1, 1, 2)


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_a_memory_map_gives_the_statistics_of_its_array(mode: Any, tmp_path: Path) -> None:
    mean, variance = some_codes()
    for name, part in (("mean", mean), ("variance", variance)):
        np.save(tmp_path / f"{name}.npy", part)
    pair = [np.load(tmp_path / f"{name}.npy", mmap_mode=mode) for name in ("mean", "variance")]
    same(LatentStatistics.of(*pair, chunk=50), LatentStatistics.of(mean, variance))
    same(
        LatentStatistics.of(pair[0][::2], np.asarray(pair[1])[::2], chunk=50),
        LatentStatistics.of(mean[::2], variance[::2]),
    )


def test_statistics_with_different_options_are_not_merged() -> None:
    mean, variance = some_codes()
    one = LatentStatistics.of(mean, variance)
    others = {
        "latents, got 4 and 3": LatentStatistics.of(mean[:, :3], variance[:, :3]),
        "alpha, got 0.1 and 0.2": LatentStatistics.of(mean, variance, alpha=0.2),
        "epsilon, got 0.01 and 0.5": LatentStatistics.of(mean, variance, epsilon=0.5),
        "must all have a prior": LatentStatistics.of(mean, variance, prior=a_prior()),
    }
    for message, other in others.items():
        with pytest.raises(DataError, match=message):
            one.merge(other)


def test_a_bad_value_is_named_by_its_number_over_all_chunks() -> None:
    mean, variance = some_codes()
    mean[123, 2] = np.nan
    with pytest.raises(DataError, match="item 123, latent 2"):
        LatentStatistics.of(mean, variance, chunk=50)
    with pytest.raises(DataError, match="item 123, latent 2"):
        LatentStatistics.over([(mean[:100], variance[:100]), (mean[100:], variance[100:])])


@pytest.mark.parametrize("chunks", [[], [(np.zeros((0, 3)), np.zeros((0, 3)))]])
def test_no_examples_are_refused(chunks: Any) -> None:
    with pytest.raises(DataError, match="at least one example"):
        LatentStatistics.over(chunks)


@pytest.mark.parametrize("settings", [{"epsilon": 0}, {"epsilon": "a"}, {"chunk": 0}, {"alpha": float("nan")}])
def test_an_option_out_of_range_is_named(settings: Any) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        LatentStatistics.of(*some_codes(), **settings)


def test_well_determined_latents_are_those_of_mackay_for_a_linear_gaussian_model() -> None:
    generator = np.random.default_rng(0)
    loadings = generator.standard_normal((6, 4)) * [3.0, 1.0, 0.3, 0.0]
    posterior = np.linalg.inv(np.eye(4) + loadings.T @ loadings)
    eigenvalues = np.linalg.eigvalsh(loadings.T @ loadings)
    variance = np.tile(posterior.diagonal(), (5, 1))
    found = LatentStatistics.of(np.zeros((5, 4)), variance).well_determined
    assert float(found.sum()) == pytest.approx((eigenvalues / (eigenvalues + 1)).sum())
    assert found.tolist() == pytest.approx((1 - posterior.diagonal()).tolist())
    assert float(found[3]) == pytest.approx(0)


def test_well_determined_latents_are_relative_to_the_prior_of_each_item() -> None:
    variance = np.array([[0.01, 0.04, 2.0], [0.01, 0.08, 2.0]])
    prior = np.zeros((2, 3)), np.array([[1.0, 0.04, 1.0], [2.0, 0.16, 1.0]])
    found = LatentStatistics.of(np.zeros((2, 3)), variance, prior=prior).well_determined
    assert found.tolist() == pytest.approx([1 - 0.0075, 0.25, -1.0])
