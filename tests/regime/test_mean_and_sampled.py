"""Means vs. samples: definitions, kinds of input, and cases without a measure."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import mutual_info_score

from vaescope.codes import Representation
from vaescope.errors import ConfigurationError, DataError
from vaescope.numerics import linalg
from vaescope.regime.mean_and_sampled import mean_and_sampled

TYPES = ("active", "passive", "mixed", "active", "passive", "mixed")
GENERATOR = np.random.default_rng(0)
MEAN = (GENERATOR.normal(size=(200, 6)) @ GENERATOR.normal(size=(6, 6))).astype(np.float32)
SAMPLE = (MEAN + GENERATOR.normal(size=MEAN.shape)).astype(np.float32)
GROUPS = {
    "full": (0, 1, 2, 3, 4, 5),
    "active": (0, 3),
    "mixed": (2, 5),
    "passive": (1, 4),
    "active+mixed": (0, 2, 3, 5),
    "active+passive": (0, 1, 3, 4),
    "mixed+passive": (1, 2, 4, 5),
}


def reference(codes: np.ndarray) -> dict[str, float]:
    """Each number from its definition."""
    codes = codes.astype(np.float64)
    covariance = np.cov(codes.T)
    binned = [np.digitize(column, np.histogram(column, 20)[1][:-1]) for column in codes.T]
    size = len(covariance)
    pairs = [mutual_info_score(binned[i], binned[j]) for i in range(size) for j in range(size) if i != j]

    def rank(matrix: np.ndarray) -> float:
        share = np.linalg.svd(matrix, compute_uv=False)
        share = share / share.sum()
        return float(np.exp(-(share * np.log(share)).sum()))

    return {
        "total_correlation": 0.5 * (np.log(np.diag(covariance)).sum() - np.linalg.slogdet(covariance)[1]),
        "averaged_mutual_information": float(np.mean(pairs)),
        "effective_rank": rank(codes - codes.mean(0)),
        "covariance_effective_rank": rank(covariance),
    }


def test_every_measure_equals_its_definition() -> None:
    result = mean_and_sampled((MEAN, SAMPLE), TYPES)
    assert len(result.entries) == 14
    for name, codes in (("mean", MEAN), ("sampled", SAMPLE)):
        for group, latents in GROUPS.items():
            entry = result.entry(name, group)
            assert entry.latents == latents
            for measure, value in reference(codes[:, latents]).items():
                assert getattr(entry, measure) == pytest.approx(value, rel=1e-8), (name, group, measure)
            assert entry.correlation == pytest.approx(np.corrcoef(codes[:, latents].T.astype(np.float64)), rel=1e-8)
            assert entry.notes == ()


def test_the_trace_difference_equals_that_of_the_covariances() -> None:
    result = mean_and_sampled((MEAN, SAMPLE), TYPES)
    expected = np.trace(np.cov(SAMPLE.T.astype(float))) - np.trace(np.cov(MEAN.T.astype(float)))
    assert result.trace_difference == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    "kind",
    [
        lambda array: array.astype(np.float64),
        torch.from_numpy,
        lambda array: torch.from_numpy(array).double().requires_grad_(),
        np.asfortranarray,
        lambda array: array.astype(">f4"),
        lambda array: array.astype(np.longdouble),
        lambda array: array[::-1].copy()[::-1],
        lambda array: np.broadcast_to(array, array.shape),
    ],
)
def test_the_kind_of_array_changes_no_bit(kind: Any) -> None:
    plain = mean_and_sampled((MEAN, SAMPLE), TYPES)
    other = mean_and_sampled(SimpleNamespace(mean=kind(MEAN), sample=kind(SAMPLE)), TYPES)
    assert other == plain
    for one, two in zip(plain.entries, other.entries, strict=True):
        assert np.array_equal(one.correlation, two.correlation)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_codes_are_summed_in_double_precision(kind: torch.dtype) -> None:
    mean, sample = torch.from_numpy(MEAN).to(kind), torch.from_numpy(SAMPLE).to(kind)
    assert mean_and_sampled((mean, sample), TYPES) == mean_and_sampled((mean.double(), sample.double()), TYPES)


def test_representations_and_results_with_types_are_accepted() -> None:
    mean, sample = torch.from_numpy(MEAN), torch.from_numpy(SAMPLE)
    codes = Representation(mean, torch.ones_like(mean), sample)
    plain = mean_and_sampled((MEAN, SAMPLE), TYPES)
    assert mean_and_sampled(codes, SimpleNamespace(types=TYPES)) == plain
    assert mean_and_sampled(codes, np.array(TYPES)) == plain


@pytest.mark.parametrize("block", [6, 60, 1200])
def test_chunks_change_nothing(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mean_and_sampled((MEAN, SAMPLE), TYPES)
    monkeypatch.setattr(linalg, "CHUNK_NUMBERS", block)
    parts = mean_and_sampled((MEAN, SAMPLE), TYPES)
    for one, two in zip(whole.rows(), parts.rows(), strict=True):
        assert one.pop("notes") == two.pop("notes")
        assert [one.pop(key) for key in ("representation", "combination")] == [
            two.pop(key) for key in ("representation", "combination")
        ]
        assert one == pytest.approx(two, rel=1e-10)
    assert parts.trace_difference == pytest.approx(whole.trace_difference, rel=1e-10)


def test_only_combinations_of_types_that_occur_are_measured() -> None:
    result = mean_and_sampled((MEAN, SAMPLE), ["active"] * 4 + ["passive"] * 2)
    groups = [entry.combination for entry in result.entries if entry.representation == "mean"]
    assert groups == ["full", "active", "passive", "active+passive"]
    with pytest.raises(DataError, match=r"mean full, .* got mean mixed"):
        result.entry("mean", "mixed")


def test_one_latent_gets_a_note_instead_of_measures() -> None:
    result = mean_and_sampled((MEAN, SAMPLE), ["active"] * 5 + ["mixed"])
    entry = result.entry("sampled", "mixed")
    assert (entry.total_correlation, entry.averaged_mutual_information, entry.effective_rank) == (None, None, None)
    assert entry.correlation is None
    assert "Not applicable" in entry.notes[0]
    alone = mean_and_sampled((MEAN[:, :1], SAMPLE[:, :1]), ["active"])
    assert "two latents" in alone.summary()
    assert alone.trace_difference == pytest.approx(np.var(SAMPLE[:, 0], ddof=1) - np.var(MEAN[:, 0], ddof=1), rel=1e-4)


def test_a_duplicated_latent_makes_the_total_correlation_infinite_and_is_named() -> None:
    mean = MEAN.copy()
    mean[:, 4] = mean[:, 0]
    result = mean_and_sampled((mean, SAMPLE), TYPES)
    entry = result.entry("mean")
    assert entry.total_correlation == math.inf
    assert ["latents 0, 4" in note for note in entry.notes] == [True]
    assert math.isfinite(result.entry("mean", "mixed+passive").total_correlation or math.nan)
    assert "inf" in result.summary()


def test_a_constant_latent_is_named_and_gives_no_nan() -> None:
    mean = MEAN.copy()
    mean[:, [1, 4]] = [0.1, -7.3]
    result = mean_and_sampled((mean, SAMPLE), TYPES)
    passive = result.entry("mean", "passive")
    assert (passive.total_correlation, passive.averaged_mutual_information, passive.effective_rank) == (0, 0, 0)
    assert ["1, 4" in note for note in passive.notes] == [True]
    full, others = result.entry("mean"), result.entry("mean", "active+mixed")
    assert full.total_correlation == pytest.approx(others.total_correlation, rel=1e-10)
    assert full.effective_rank == pytest.approx(others.effective_rank, rel=1e-10)
    assert not any(isinstance(cell, float) and math.isnan(cell) for row in result.rows() for cell in row.values())


def test_shift_and_order_of_items_change_nothing() -> None:
    order = np.random.default_rng(1).permutation(len(MEAN))
    plain = mean_and_sampled((MEAN.astype(float), SAMPLE.astype(float)), TYPES)
    changed = mean_and_sampled((MEAN[order].astype(float) + 8, SAMPLE[order].astype(float) + 8), TYPES)
    for one, two in zip(plain.entries, changed.entries, strict=True):
        assert one.total_correlation == pytest.approx(two.total_correlation, rel=1e-9)
        assert one.effective_rank == pytest.approx(two.effective_rank, rel=1e-9)


def test_the_result_is_frozen_and_flat() -> None:
    result = mean_and_sampled((MEAN, SAMPLE), TYPES, bins=5)
    with pytest.raises(FrozenInstanceError):
        result.bins = 3
    correlation = result.entry("mean").correlation
    assert correlation is not None
    with pytest.raises(ValueError, match="read-only"):
        correlation[0, 0] = 2
    rows = result.rows()
    assert {len(row) for row in rows} == {8}
    assert all(isinstance(cell, str | int | float | None) for row in rows for cell in row.values())
    assert "(2 of 6 latents passive)" in result.summary()
    assert "\n" not in result.summary()


def with_value(value: float) -> np.ndarray:
    sample = SAMPLE.copy()
    sample[17, 3] = value
    return sample


@pytest.mark.parametrize(
    ("codes", "sentence"),
    [
        ((MEAN, with_value(math.nan)), r"sample must be finite, got nan for item 17, latent 3"),
        ((with_value(-math.inf), SAMPLE), r"mean must be finite, got -inf for item 17, latent 3"),
        ((MEAN, SAMPLE[:, :5]), r"shape.* \(200, 6\) and \(200, 5\)"),
        ((MEAN[:1], SAMPLE[:1]), "2 items, got 1"),
        ((MEAN[:6], SAMPLE[:6]), "6 items and 6 latents"),
        ((MEAN[:4], SAMPLE[:4]), "4 items and 6 latents"),
        ((MEAN[:, 0], SAMPLE[:, 0]), r"mean .*table.* \(200,\)"),
        ((MEAN[:, :0], SAMPLE[:, :0]), r"mean .*table.* \(200, 0\)"),
        ((MEAN.astype(str), SAMPLE), "mean .*real.* <U"),
        (MEAN, "pair.* got ndarray"),
        (torch.from_numpy(MEAN), "pair.* got Tensor"),
        ((MEAN, SAMPLE, SAMPLE), "pair.* got tuple"),
    ],
)
def test_bad_codes_are_refused(codes: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        mean_and_sampled(codes, TYPES)


@pytest.mark.parametrize(
    ("types", "sentence"),
    [
        (TYPES[:4], "6 latents, got 4"),
        ((*TYPES[:5], "dead"), r"'dead' for latent 5"),
        ("active", r"sequence.* got 'active'"),
        (None, r"sequence.* got None"),
    ],
)
def test_bad_types_are_refused(types: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        mean_and_sampled((MEAN, SAMPLE), types)


@pytest.mark.parametrize("bins", [0, 1, 2.5, True])
def test_bad_bins_are_refused(bins: Any) -> None:
    with pytest.raises(ConfigurationError, match="bins"):
        mean_and_sampled((MEAN, SAMPLE), TYPES, bins=bins)
