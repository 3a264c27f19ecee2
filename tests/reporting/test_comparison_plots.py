"""Plots of several runs: what is drawn for which run, and when there is nothing to draw."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

import numpy as np
import pytest

from vaescope.diagnosis.compare import Comparison
from vaescope.reporting.comparison_plots import rates_plot, types_over_strength_plot, types_plot
from vaescope.reporting.heatmaps import layer_plots, similarity_plot
from vaescope.reporting.loss_plots import losses_plot
from vaescope.reporting.plots import Plot
from vaescope.similarity import SimilarityMap


def history(last: float, steps: int = 4, splits: tuple[str, ...] = ("train", "test")) -> list[dict[str, Any]]:
    """A loss that decreases to `last` on held-out items, and to one less on training items."""
    return [
        {"step": step, "split": split, "loss": last + steps - step - (split == "train")}
        for step in range(1, steps + 1)
        for split in splits
    ]


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


def test_each_run_has_a_panel_on_the_same_scale() -> None:
    plot = drawn(losses_plot([("one", history(5.0)), ("two", history(3.0)), ("codes", [])]))
    one, two = plot.figure.data
    assert (one.name, one.x, one.y) == ("one", (1, 2, 3, 4), (8.0, 7.0, 6.0, 5.0))
    assert (one.yaxis, two.yaxis) == ("y", "y2")
    assert plot.figure.layout.yaxis2.matches == "y"
    assert [title.text for title in plot.figure.layout.annotations] == ["one", "two"]
    assert "two has the lowest final loss of 2 runs, 3 nats; 1 without" in plot.sentence
    assert read_back(plot)[0] == {"name": "one", "split": "test", "step": "1", "loss": "8.0"}


def test_training_losses_are_used_if_a_run_has_no_others() -> None:
    plot = drawn(losses_plot([("one", history(5.0)), ("two", history(3.0, splits=("train",)))]))
    assert {entry["split"] for entry in plot.rows} == {"train"}
    assert plot.figure.data[0].y == (7.0, 6.0, 5.0, 4.0)
    assert "training items" in plot.sentence


def test_many_losses_share_a_panel_with_the_lowest_on_top() -> None:
    runs = [(f"run {number}", history(20.0 - number)) for number in range(13)]
    figure = drawn(losses_plot(runs)).figure
    assert len(figure.data) == 13
    assert {one.yaxis for one in figure.data} == {None}
    assert figure.data[-1].name == "lowest final loss: run 12"
    assert figure.data[-1].line.width > figure.data[0].line.width
    assert [one.showlegend for one in figure.data].count(True) == 1
    assert "yaxis12" in drawn(losses_plot(runs[:12])).figure.layout


def test_long_histories_of_many_runs_give_small_figures() -> None:
    runs = [(f"run {number}", history(number + math.pi, 5000)) for number in range(12)]
    assert len(drawn(losses_plot(runs)).figure.to_json()) < 300_000


def test_without_histories_there_is_no_loss_plot() -> None:
    assert losses_plot([]) is None
    assert losses_plot([("codes", []), ("failed", [])]) is None
    assert losses_plot([("probed", [{"step": 1, "split": "probe", "active": 1}])]) is None


def test_rates_are_plotted_against_reconstructions_with_a_number_for_each_run() -> None:
    plot = drawn(rates_plot([row("one", 1.0), row("two", 2.0), row("three", 2.0, objective="factor")]))
    assert [(point.x, point.y, point.text) for point in plot.figure.data] == [
        ((9.0,), (2.0,), ("1",)),
        ((4.5,), (3.0,), ("2",)),
        ((4.5,), (3.0,), ("3",)),
    ]
    assert [point.name for point in plot.figure.data] == ["1 one", "2 two", "3 three"]
    first, second, third = (point.marker for point in plot.figure.data)
    assert (first.symbol, first.color) == (second.symbol, second.color)
    assert first.symbol != third.symbol
    assert first.color != third.color
    assert "beta 2.0" in plot.figure.data[1].hovertemplate
    assert read_back(plot)[1] == {"name": "two", "split": "test", "rate": "4.5", "reconstruction": "3.0"}


def test_with_many_runs_the_legend_names_the_objectives() -> None:
    figure = drawn(rates_plot([row(f"run {number}", 1.0 + number) for number in range(13)])).figure
    assert [point.name for point in figure.data if point.showlegend] == ["beta"]
    assert all(point.text is None for point in figure.data)


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
    assert plot.figure.layout.yaxis.ticktext == ("one", "two")
    assert len({one.marker.pattern.shape for one in plot.figure.data}) == 3
    assert "1 to 3 active" in plot.sentence
    assert read_back(plot)[1] == {"name": "two", "active": "1", "mixed": "1", "passive": "4"}


def test_runs_without_types_have_no_bars() -> None:
    assert types_plot([]) is None
    assert types_plot([{"name": "failed", "active": None, "mixed": None, "passive": None}]) is None


def test_long_names_keep_their_ends() -> None:
    name = "a/very/long/folder/with/codes-of-one.npz"
    (shown,) = drawn(types_plot([row(name)])).figure.layout.yaxis.ticktext
    assert len(shown) == 16
    assert shown.startswith("a/very")
    assert shown.endswith("one.npz")
    assert drawn(types_plot([row(name)])).rows[0]["name"] == name


def compared(layers: SimilarityMap | None = None) -> Comparison:
    matrix = np.array([[1.0, 0.5, 0.25], [0.5, 1.0, 0.75], [0.25, 0.75, 1.0]])
    return Comparison(("one", "two", "three"), "mean", "cka", (), matrix, (), layers)


def test_similarities_equal_those_of_the_comparison() -> None:
    plot = similarity_plot(compared())
    np.testing.assert_array_equal(plot.figure.data[0].z, compared().matrix)
    assert plot.figure.data[0].x == plot.figure.data[0].y == ("one", "two", "three")
    assert read_back(plot)[0] == {"one": "three", "other": "two", "similarity": "0.75"}


def test_layers_are_drawn_if_they_were_compared() -> None:
    assert layer_plots(compared()) == ()
    matrix = np.array([[1.0, np.nan, 0.25], [0.5, np.nan, 0.75]])
    layers = SimilarityMap(
        "cka", ("input", "mean"), ("input", "still", "mean"), matrix, matrix * 0, np.ones((2, 3), int)
    )
    (plot,) = layer_plots(compared(layers))
    assert [list(line) for line in plot.figure.data[0].z] == [[1.0, None, 0.25], [0.5, None, 0.75]]
    assert plot.figure.layout.xaxis.title.text == "layer of two"
    assert len(read_back(plot)) == 6


def test_every_figure_is_readable_on_a_phone() -> None:
    rows = [row("one", 1.0), row("two", 2.0)]
    plots = [rates_plot(rows), types_plot(rows), types_over_strength_plot(rows), similarity_plot(compared())]
    for plot in [*plots, losses_plot([("one", history(1.0))])]:
        layout = drawn(plot).figure.layout
        assert layout.font.size >= 14
        assert (layout.autosize, layout.width) == (True, None)
        assert layout.height >= 100
        assert all(trace.hovertemplate for trace in drawn(plot).figure.data)
