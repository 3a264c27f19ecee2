"""Plots of training: their points, what is omitted, and their size."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

import numpy as np
import pytest

from vaescope.regime import VariableTypes, variable_types
from vaescope.reporting.downsample import MAX_POINTS, downsample
from vaescope.reporting.history_plots import history_plot, rate_distortion_plot, types_over_training_plot
from vaescope.reporting.plots import Plot

ROWS: list[dict[str, Any]] = [
    {"step": 1, "split": "train", "loss": 12.0, "reconstruction": 11.0, "rate": 1.0, "gradient_norm": 5.0},
    {"step": 2, "split": "train", "loss": 8.0, "reconstruction": 6.0, "rate": 2.0, "gradient_norm": 3.0},
    {"step": 2, "split": "test", "loss": 9.0, "reconstruction": 7.0, "rate": 2.0},
    {"step": 2, "split": "probe", "active": 1, "mixed": 0, "passive": 2, "types": "app", "rate": 2.5},
    {"step": 3, "split": "train", "loss": 7.0, "reconstruction": 4.0, "rate": 3.0, "gradient_norm": 2.0},
    {"step": 3, "split": "probe", "active": 1, "mixed": 0, "passive": 2, "types": "app", "rate": 3.0},
    {"step": 4, "split": "probe", "active": 2, "mixed": 0, "passive": 1, "types": "aap", "rate": 3.0},
    {"step": 5, "split": "probe", "active": 2, "mixed": 0, "passive": 1, "types": "aap", "rate": 3.0},
]


def long_history(steps: int = 5000) -> list[dict[str, Any]]:
    generator = np.random.default_rng(0)
    names = ("loss", "reconstruction", "rate", "total_correlation", "index_code_information", "gradient_norm")
    values = generator.normal(size=(steps, len(names))).tolist()
    return [
        {"step": step, "split": split, **dict(zip(names, row, strict=True))}
        for step, row in enumerate(values, 1)
        for split in ("train", "test")
    ]


def drawn(plot: Plot | None) -> Plot:
    assert plot is not None
    return plot


def read_back(plot: Plot) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(plot.csv())))


def test_each_term_has_a_panel_with_the_loss_first() -> None:
    figure = drawn(history_plot(ROWS)).figure
    titles = [figure.layout[f"yaxis{place}"].title.text for place in ("", 2, 3, 4)]
    assert titles == ["loss (nats)", "reconstruction (nats)", "rate (nats)", "gradient norm"]
    assert "yaxis5" not in figure.layout
    late = [{"split": "train", "step": 1, "rate": 2.0, "loss": 1.0}]
    assert drawn(history_plot(late)).figure.layout.yaxis.title.text == "loss (nats)"


def test_the_lines_are_the_rows_of_the_history() -> None:
    traces = {(one.name, one.yaxis): one for one in drawn(history_plot(ROWS)).figure.data}
    loss = traces["training items", "y"]
    assert (loss.x, loss.y) == ((1, 2, 3), (12.0, 8.0, 7.0))
    held_out = traces["held-out items", "y3"]
    assert (held_out.x, held_out.y, held_out.mode) == ((2,), (2.0,), "markers")
    assert ("held-out items", "y4") not in traces


def test_train_and_test_differ_in_more_than_colour() -> None:
    rows = [*ROWS, {"step": 3, "split": "test", "loss": 7.5}]
    train, test = drawn(history_plot(rows)).figure.data[:2]
    assert train.line.color != test.line.color
    assert (train.line.dash, test.line.dash) == (None, "dash")
    assert (train.mode, test.mode) == ("lines", "lines+markers")


def test_an_axis_is_logarithmic_for_positive_values_over_many_decades() -> None:
    for values, kind in (([1.0, 1000.0], "linear"), ([1.0, 1001.0], "log"), ([-1.0, 1e6], "linear")):
        rows = [{"step": step, "split": "train", "loss": value} for step, value in enumerate(values)]
        assert drawn(history_plot(rows)).figure.layout.yaxis.type == kind


def test_non_finite_values_are_omitted_and_counted() -> None:
    rows = [*ROWS, {"step": 4, "split": "train", "loss": math.nan, "reconstruction": math.inf}]
    plot = drawn(history_plot(rows))
    assert plot.figure.data[0].y == (12.0, 8.0, 7.0)
    assert "2 non-finite values" in plot.sentence
    assert "Not shown" not in drawn(history_plot(ROWS)).sentence


def test_downsampling_keeps_both_ends_and_the_extremes() -> None:
    values = np.sin(np.arange(7000.0)).tolist()
    values[3210], values[45] = 9.0, -9.0
    places = downsample(values)
    assert len(places) <= MAX_POINTS
    assert {0, 45, 3210, 6999} <= set(places)
    assert places == sorted(places)
    assert downsample(values[:MAX_POINTS]) == list(range(MAX_POINTS))


def test_long_histories_give_small_figures() -> None:
    history = long_history()
    history += [
        {"step": step, "split": "probe", "active": step % 3, "mixed": step % 2, "passive": 5 - step % 3 - step % 2}
        for step in range(1, 5000)
    ]
    for make in (history_plot, rate_distortion_plot, types_over_training_plot):
        figure = drawn(make(history)).figure
        assert all(len(trace.x) <= MAX_POINTS for trace in figure.data)
        assert len(figure.to_json()) < 300_000


def test_the_rate_distortion_path_ends_at_a_mark() -> None:
    plot = drawn(rate_distortion_plot(ROWS))
    way, end, held_out = plot.figure.data
    assert (way.x, way.y, way.customdata) == ((1.0, 2.0, 3.0), (11.0, 6.0, 4.0), (1, 2, 3))
    assert way.marker.color == (1, 2, 3)
    assert (end.x, end.y) == ((3.0,), (4.0,))
    assert (held_out.x, held_out.y) == ((2.0,), (7.0,))
    assert end.marker.symbol != held_out.marker.symbol
    assert read_back(plot)[-1] == {"split": "test", "step": "2", "rate": "2.0", "reconstruction": "7.0"}


def test_the_path_is_that_of_held_out_items_if_there_are_no_others() -> None:
    plot = drawn(rate_distortion_plot([row for row in ROWS if row["split"] == "test"]))
    assert [one.name for one in plot.figure.data] == ["during training", "end, held-out items"]
    assert len(plot.rows) == 1


def test_types_are_lines_with_a_marker_at_each_probe() -> None:
    plot = drawn(types_over_training_plot(ROWS))
    assert plot.rows == [
        {"step": 2, "counted": "probe", "active": 1, "mixed": 0, "passive": 2},
        {"step": 3, "counted": "probe", "active": 1, "mixed": 0, "passive": 2},
        {"step": 4, "counted": "probe", "active": 2, "mixed": 0, "passive": 1},
        {"step": 5, "counted": "probe", "active": 2, "mixed": 0, "passive": 1},
    ]
    lines = {one.name: one for one in plot.figure.data}
    assert lines["● active"].y == (1, 1, 2, 2)
    assert lines["○ passive"].y == (2, 2, 1, 1)
    assert all(one.mode == "lines+markers" and one.stackgroup is None for one in plot.figure.data)
    assert len({one.marker.symbol for one in plot.figure.data}) == len({one.line.dash for one in plot.figure.data}) == 3
    assert "unchanged since step 4" in plot.sentence


def final_types_of(letters: str) -> VariableTypes:
    variance = np.tile([{"a": 0.01, "m": 0.5, "p": 1.0}[letter] for letter in letters], (70, 1))
    return variable_types((np.zeros_like(variance), variance))


def test_every_line_ends_in_the_final_diagnosis() -> None:
    plot = drawn(types_over_training_plot(ROWS, final_types_of("amp")))
    assert plot.rows[-1] == {"step": 5, "counted": "final", "active": 1, "mixed": 1, "passive": 1}
    for line in plot.figure.data:
        assert (line.x[-1], line.y[-1]) == (5, 1)
        assert line.marker.size[-1] > line.marker.size[-2]
        assert "70 items" in line.customdata[-1]
    assert [one.text for one in plot.figure.layout.annotations] == ["final"]
    assert "Final diagnosis over 70 items: 1 active, 1 mixed, 1 passive" in plot.sentence
    assert "fewer items" in plot.sentence
    assert "fewer items" not in drawn(types_over_training_plot(ROWS, final_types_of("aap"))).sentence


def test_one_probe_and_the_final_diagnosis_make_a_line() -> None:
    early = [*ROWS[:4], {"step": 9, "split": "train", "loss": 7.0}]
    plot = drawn(types_over_training_plot(early, final_types_of("aap")))
    assert [(row["step"], row["counted"]) for row in plot.rows] == [(2, "probe"), (9, "final")]
    assert types_over_training_plot(ROWS[:4], final_types_of("aap")) is None


def test_the_sentence_says_whether_counts_are_still_changing() -> None:
    moving = drawn(types_over_training_plot(ROWS[:-1])).sentence
    assert "the numbers of active and passive latents still changed at the last probe" in moving
    assert "the counts never changed" in drawn(types_over_training_plot(ROWS[:-2])).sentence


@pytest.mark.parametrize("make", [history_plot, rate_distortion_plot, types_over_training_plot])
def test_an_empty_history_has_no_plot(make: Any) -> None:
    assert make([]) is None


def test_a_history_without_the_needed_terms_has_no_plot() -> None:
    assert history_plot([row for row in ROWS if row["split"] == "probe"]) is None
    assert rate_distortion_plot([{"step": 1, "split": "train", "loss": 1.0, "reconstruction": 1.0}]) is None
    still = [{"step": 1, "split": "train", "reconstruction": 1.0, "rate": 0.0}]
    assert rate_distortion_plot(still) is None
    assert types_over_training_plot(ROWS[:4]) is None


def test_the_csv_contains_the_points_of_the_figure() -> None:
    plot = drawn(history_plot(ROWS))
    rows = read_back(plot)
    assert len(rows) == sum(len(trace.x) for trace in plot.figure.data)
    assert rows[0] == {"term": "loss", "split": "train", "step": "1", "value": "12.0"}


@pytest.mark.parametrize("make", [history_plot, rate_distortion_plot, types_over_training_plot])
def test_figures_have_a_fixed_height_and_the_width_of_the_page(make: Any) -> None:
    layout = make(ROWS).figure.layout
    assert (layout.autosize, layout.width) == (True, None)
    assert layout.height >= 200
    assert layout.font.size >= 14
    assert all(trace.hovertemplate for trace in make(ROWS).figure.data)
