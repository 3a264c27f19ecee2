"""Plots of several runs: what is drawn for which run, and when there is nothing to draw."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

import pytest

from vaescope.reporting.comparison_plots import (
    measured_rates_plot,
    rates_plot,
    types_over_strength_plot,
    types_plot,
)
from vaescope.reporting.model_style import model_style
from vaescope.reporting.plots import Plot


def row(name: str, beta: float = 1.0, active: int = 3, passive: int = 2, **more: Any) -> dict[str, Any]:
    types = {"active": active, "mixed": 1, "passive": passive}
    ends = {
        "train_rate": 10 / beta,
        "train_reconstruction": beta,
        "test_rate": 9 / beta,
        "test_reconstruction": beta + 1,
    }
    return {"name": name, "objective": "beta", "beta": beta, "seed": 0, "latents": 6, **types, **ends, **more}


def drawn(plot: Plot | None) -> Plot:
    assert plot is not None
    return plot


def read_back(plot: Plot) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(plot.csv())))


def test_distortions_are_plotted_against_rates_with_a_style_for_each_run() -> None:
    plot = drawn(rates_plot([row("one", 1.0), row("two", 2.0), row("three", 2.0, objective="factor")]))
    assert [(point.x, point.y) for point in plot.figure.data] == [((9.0,), (2.0,)), ((4.5,), (3.0,)), ((4.5,), (3.0,))]
    assert [point.name for point in plot.figure.data] == ["one", "two", "three"]
    markers = [(point.marker.color, point.marker.symbol) for point in plot.figure.data]
    assert markers == [(model_style(place).colour, model_style(place).symbol.plotly) for place in range(3)]
    assert "beta 2.0" in plot.figure.data[1].hovertemplate
    assert read_back(plot)[1] == {"name": "two", "split": "test", "rate": "4.5", "distortion": "3.0"}
    assert "lowest" not in plot.sentence


def test_a_model_without_values_does_not_change_the_style_of_others() -> None:
    plot = drawn(rates_plot([{"name": "codes", "active": 1}, row("one")]))
    assert plot.figure.data[0].marker.color == model_style(1).colour


def test_many_runs_have_no_legend() -> None:
    figure = drawn(rates_plot([row(f"run {number}", 1.0 + number) for number in range(13)])).figure
    assert figure.layout.showlegend is False
    assert drawn(rates_plot([row(f"run {number}", 1.0 + number) for number in range(12)])).figure.layout.showlegend


def test_models_without_a_common_likelihood_are_compared_by_their_squared_errors() -> None:
    rows = [row("one", rate=3.0), {"name": "foreign", "rate": 5.0}, {"name": "codes", "rate": 1.0}]
    plot = drawn(measured_rates_plot(rows, [0.25, 0.5, None]))
    assert [(entry["name"], entry["rate"], entry["mean_squared_error"]) for entry in plot.rows] == [
        ("one", 3.0, 0.25),
        ("foreign", 5.0, 0.5),
    ]
    assert measured_rates_plot(rows, [None] * 3) is None
    assert measured_rates_plot([{"name": "plain", "rate": math.inf}], [0.5]) is None


def test_training_rates_are_used_if_a_run_has_no_others() -> None:
    other = {key: value for key, value in row("two").items() if not key.startswith("test")}
    plot = drawn(rates_plot([row("one"), other, {"name": "codes", "active": 1}]))
    assert [(entry["name"], entry["split"], entry["rate"]) for entry in plot.rows] == [
        ("one", "train", 10.0),
        ("two", "train", 10.0),
    ]
    with_codes = drawn(rates_plot([row("one"), {"name": "codes", "active": 1}]))
    assert [entry["split"] for entry in with_codes.rows] == ["test"]
    assert rates_plot([{"name": "codes", "active": 1}]) is None
    assert rates_plot([]) is None
    assert rates_plot([row("diverged", test_rate=math.nan, train_rate=math.inf)]) is None


def test_counts_over_a_strength_are_means_with_the_range_over_seeds() -> None:
    rows = [row("a", 1.0, 4, 1), row("b", 1.0, 5, 0, seed=1), row("c", 8.0, 2, 3), row("d", 8.0, 1, 4, seed=1)]
    plot = drawn(types_over_strength_plot(rows))
    active = next(one for one in plot.figure.data if one.name == "● active")
    assert (active.x, active.y) == ((1.0, 8.0), (4.5, 1.5))
    assert (active.error_y.array, active.error_y.arrayminus) == ((0.5, 0.5), (0.5, 0.5))
    assert plot.figure.layout.xaxis.title.text == "beta"
    assert plot.figure.layout.xaxis.type == "log"
    assert len({one.line.dash for one in plot.figure.data}) == len({one.marker.symbol for one in plot.figure.data}) == 3
    assert read_back(plot)[0]["active_most"] == "5"
    assert plot.title == "Types over beta"


def test_a_strength_of_0_has_a_linear_axis() -> None:
    plot = drawn(types_over_strength_plot([row("a", gamma=0.0), row("b", gamma=10.0)]))
    assert plot.figure.layout.xaxis.type == "linear"
    assert plot.title == "Types over gamma"


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [row("a"), row("b", seed=1, latents=8)],
        [row("a", 1.0, gamma=1.0), row("b", 2.0, gamma=2.0)],
        [{"name": "a", "beta": 1.0}, {"name": "b", "beta": 2.0}],
    ],
)
def test_there_is_no_plot_over_strengths_unless_exactly_one_differs(rows: list[dict[str, Any]]) -> None:
    assert types_over_strength_plot(rows) is None


def test_bars_show_the_counts_of_each_run() -> None:
    plot = drawn(types_plot([row("one"), {"name": "failed"}, row("two", active=1, passive=4)]))
    bars = {one.name: one for one in plot.figure.data}
    assert {name: one.x for name, one in bars.items()} == {"● active": (3, 1), "◆ mixed": (1, 1), "○ passive": (2, 4)}
    assert plot.figure.layout.barmode == "stack"
    assert plot.figure.layout.yaxis.ticktext == (model_style(0).tick("one"), model_style(2).tick("two"))
    assert len({one.marker.pattern.shape for one in plot.figure.data}) == 3
    assert "1 to 3 active" in plot.sentence
    assert read_back(plot)[1] == {"name": "two", "active": "1", "mixed": "1", "passive": "4"}


def test_runs_without_types_have_no_bars() -> None:
    assert types_plot([]) is None
    assert types_plot([{"name": "failed", "active": None, "mixed": None, "passive": None}]) is None


def test_long_names_keep_their_ends() -> None:
    name = "a/very/long/folder/with/codes-of-one.npz"
    (shown,) = drawn(types_plot([row(name)])).figure.layout.yaxis.ticktext
    shown = shown.removeprefix(model_style(0).tick(""))
    assert len(shown) == 20
    assert shown.startswith("a/very")
    assert shown.endswith("one.npz")
    assert drawn(types_plot([row(name)])).rows[0]["name"] == name


def test_every_figure_is_readable_on_a_phone() -> None:
    rows = [row("one", 1.0), row("two", 2.0)]
    for plot in (rates_plot(rows), types_plot(rows), types_over_strength_plot(rows)):
        layout = drawn(plot).figure.layout
        assert layout.font.size >= 14
        assert (layout.autosize, layout.width) == (True, None)
        assert layout.height >= 100
        assert all(trace.hovertemplate for trace in drawn(plot).figure.data)
