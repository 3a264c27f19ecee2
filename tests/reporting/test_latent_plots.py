"""Plots of the latents of one model: counts, correlations and information against plain loops and numpy."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
import pytest
import torch

from vaescope.codes import Representation
from vaescope.metrics import Meaning, Score
from vaescope.regime import variable_types
from vaescope.reporting.latent_plots import (
    BINS,
    correlation_plot,
    factor_plot,
    histograms_plot,
    importance_plot,
    information_plot,
)
from vaescope.reporting.plots import Plot


def polarised(items: int = 500, kinds: str = "paampa") -> Representation:
    """Codes with one active, mixed or passive latent per letter; the means of passive latents are constant."""
    generator = np.random.default_rng(1)
    mean, variance = np.zeros((items, len(kinds))), np.ones((items, len(kinds)))
    for latent, kind in enumerate(kinds):
        if kind != "p":
            mean[:, latent] = generator.normal(size=items)
            variance[:, latent] = 0.01 if kind == "a" else generator.uniform(0.2, 0.9, items)
    mean[:, -1] += mean[:, len(kinds) // 6]
    sample = mean + np.sqrt(variance) * generator.normal(size=mean.shape)
    return Representation(*(torch.from_numpy(part) for part in (mean, variance, sample)))


def drawn(plot: Plot | None) -> Plot:
    assert plot is not None
    return plot


def read_back(plot: Plot) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(plot.csv())))


def plain_counts(values: Any, low: float, high: float) -> list[int]:
    counts = [0] * BINS
    for value in values:
        counts[min(int((value - low) / (high - low) * BINS), BINS - 1)] += 1
    return counts


def test_bars_equal_the_counts_of_a_plain_loop() -> None:
    codes = polarised()
    plot = histograms_plot(codes, variable_types(codes))
    bars = {(one.name, one.xaxis): one for one in plot.figure.data}
    assert len(bars) == 12
    low, high = float(codes.mean.min()), float(codes.mean.max())
    assert list(bars["latent 1, active", "x"].y) == plain_counts(codes.mean[:, 1].tolist(), low, high)
    assert list(bars["latent 3, mixed", "x4"].y) == plain_counts(codes.variance[:, 3].tolist(), 0.0, 1.0)
    assert all(sum(one.y) == len(codes) for one in plot.figure.data)


def test_each_type_that_occurs_has_its_panels() -> None:
    codes = polarised()
    titles = [one.text for one in histograms_plot(codes, variable_types(codes)).figure.layout.annotations]
    assert titles[::2] == ["● active: means", "◆ mixed: means", "○ passive: means"]
    active = polarised(kinds="aaa")
    assert len(histograms_plot(active, variable_types(active)).figure.layout.annotations) == 2


def test_many_latents_are_counted_together() -> None:
    codes = polarised(items=200, kinds="pam" * 20)
    plot = histograms_plot(codes, variable_types(codes))
    assert [one.name for one in plot.figure.data[:3]] == [
        f"20 latents, {kind}" for kind in ("active", "mixed", "passive")
    ]
    assert all(sum(one.y) == 20 * 200 for one in plot.figure.data)


def test_the_csv_contains_the_edges_of_the_bins() -> None:
    codes = polarised()
    rows = read_back(histograms_plot(codes, variable_types(codes)))
    own = [row for row in rows if row["latents"] == "3" and row["of"] == "variance"]
    inside = (codes.variance[:, 3].numpy() >= float(own[20]["from"])) & (
        codes.variance[:, 3].numpy() < float(own[20]["to"])
    )
    assert int(own[20]["codes"]) == inside.sum()


def test_correlations_equal_those_of_numpy_sorted_by_type() -> None:
    codes = polarised()
    plot = drawn(correlation_plot(codes, variable_types(codes)))
    order, varying = [1, 2, 5, 3, 0, 4], [1, 2, 5, 3]
    assert plot.figure.data[0].y == ("1 ●", "2 ●", "5 ●", "3 ◆", "0 ○", "4 ○")
    found = np.array(plot.figure.data[0].z, dtype=float)
    expected = np.abs(np.corrcoef(codes.mean.numpy()[:, varying], rowvar=False))
    np.testing.assert_allclose(found[:4, :4], expected, atol=5e-5)
    assert not found[4:].any()
    assert not found[:, 4:].any()
    assert "latents 1 and 5" in plot.sentence
    assert "constant: latents 0, 4." in plot.sentence
    pair = next(row for row in read_back(plot) if {row["latent"], row["other"]} == {"1", "5"})
    assert float(pair["correlation"]) == pytest.approx(expected[order.index(1), order.index(5)], abs=5e-5)


def plain_information(one: np.ndarray, other: np.ndarray, bins: int = 20) -> float:
    joint = np.histogram2d(one, other, bins)[0] / len(one)
    apart = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    return float(sum(p * np.log(p / q) for p, q in zip(joint.flat, apart.flat, strict=True) if p > 0))


def test_information_equals_that_of_joint_histograms_without_the_diagonal() -> None:
    codes = polarised()
    plot = drawn(information_plot(codes))
    cells = plot.figure.data[0].z
    assert all(cells[latent][latent] is None for latent in range(6))
    mean = codes.mean.numpy()
    assert cells[1][5] == cells[5][1] == pytest.approx(plain_information(mean[:, 1], mean[:, 5]), abs=5e-5)
    assert plot.figure.data[0].zmax == pytest.approx(cells[1][5])
    assert "Latents 1 and 5 share" in plot.sentence
    assert len(read_back(plot)) == 15


def test_a_single_latent_has_no_plot_of_pairs() -> None:
    codes = polarised(kinds="a")
    assert correlation_plot(codes, variable_types(codes)) is None
    assert information_plot(codes) is None


def test_many_codes_give_small_figures() -> None:
    codes = polarised(items=10_000, kinds="paampaaamp" * 3)
    types = variable_types(codes)
    for plot in (histograms_plot(codes, types), drawn(correlation_plot(codes, types)), drawn(information_plot(codes))):
        assert len(plot.figure.to_json()) < 300_000
        assert plot.figure.layout.font.size >= 14


def test_factors_are_shown_in_bits() -> None:
    bits = np.array([[1.5, 0.0], [0.01, 0.8], [0.0, 0.0]])
    found = Meaning(bits, bits > 0.1, (2.0, 1.0), ("shape", "x"), (0, 2, 3))
    plot = factor_plot(found)
    np.testing.assert_array_equal(plot.figure.data[0].z, bits)
    assert plot.figure.data[0].y == ("latent 0", "latent 2", "latent 3")
    assert plot.sentence.startswith("Shape and x")
    strong = {"beyond_chance": "True", "encodes": "True"}
    assert read_back(plot)[3] == {"latent": "2", "factor": "x", "bits": "0.8", **strong}


def test_importances_equal_those_of_the_score() -> None:
    matrix = np.array([[0.75, 0.0], [0.25, 1.0]])
    score = Score("dci", 0.6, "trees", matrix=matrix, factors=("shape", "x"), latents=(1, 4))
    plot = drawn(importance_plot(score))
    np.testing.assert_array_equal(plot.figure.data[0].z, matrix)
    assert np.array(plot.figure.data[0].text).tolist() == [[".75", ".00"], [".25", "1"]]
    assert read_back(plot)[2] == {"latent": "4", "factor": "shape", "importance": "0.25"}
    assert "dci 0.600" in plot.sentence


def test_scores_without_importances_have_no_importance_plot() -> None:
    assert importance_plot(Score("dci", 0.6, "trees")) is None
    assert importance_plot(Score("mig", 0.6, "bins", matrix=np.eye(2), factors=("a", "b"), latents=(0, 1))) is None
