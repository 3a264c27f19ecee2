"""Figures of studies: the traces of a chart, panel by panel and group by group."""

from __future__ import annotations

import csv
import io
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from vaescope.studies import Histograms, Lines, Matrix, Pictures
from vaescope.studies.pages.plots import chart_plot, chart_section, plots_and_pictures

ROWS = [
    {"beta": beta, "model": model, "data": data, "score": beta + number, "sd": 0.5}
    for data in ("mnist", "digits")
    for number, model in enumerate(("VAE", "AE"))
    for beta in (0.1, 1.0, 10.0)
]


def lines(rows: list[dict[str, Any]] = ROWS, **options: Any) -> Lines:
    return Lines("Scores", "They grow.", rows, **{"x": "beta", "y": "score", **options})


def test_every_group_has_its_line_with_bars_of_the_deviation() -> None:
    figure = chart_plot(lines(ROWS[:6], by="model")).figure
    one, other = figure.data
    assert (one.name, one.x, one.y) == ("VAE", (0.1, 1.0, 10.0), (0.1, 1.0, 10.0))
    assert (other.name, other.y) == ("AE", (1.1, 2.0, 11.0))
    assert one.error_y.array == (0.5, 0.5, 0.5)
    assert figure.layout.showlegend


def test_groups_differ_in_colour_symbol_and_dash() -> None:
    rows = [{"x": x, "y": x * group, "group": group} for group in range(30) for x in (1, 2)]
    traces = chart_plot(Lines("Many", "All.", rows, "x", "y", "group")).figure.data
    looks = {(one.line.color, one.marker.symbol, one.line.dash) for one in traces}
    assert len(looks) == 30
    assert all(
        one.line.color != next_one.line.color
        and one.marker.symbol != next_one.marker.symbol
        and one.line.dash != next_one.line.dash
        for one, next_one in pairwise(traces)
    )
    assert traces[3].name == "group 3"


def test_panels_share_the_style_of_a_group_and_its_legend_entry() -> None:
    figure = chart_plot(lines(by="model", panel="data")).figure
    assert [title.text for title in figure.layout.annotations] == ["mnist", "digits"]
    assert [(one.name, one.yaxis, one.showlegend) for one in figure.data] == [
        ("VAE", "y", True),
        ("AE", "y", True),
        ("VAE", "y2", False),
        ("AE", "y2", False),
    ]
    assert figure.data[1].line.color == figure.data[3].line.color
    assert figure.layout.xaxis.title.text is None
    assert figure.layout.xaxis2.title.text == "beta"


def test_marks_are_vertical_lines_in_their_panels_and_once_in_the_legend() -> None:
    marks = [
        {"beta": 2.0, "model": "AE", "data": "digits", "mark": "FONDUE"},
        {"beta": 0.5, "model": "VAE", "data": "mnist", "mark": "FONDUE"},
        {"beta": 4.0, "model": "VAE", "data": "mnist", "mark": "FONDUE_IB"},
    ]
    figure = chart_plot(lines(by="model", panel="data", marks=marks)).figure
    found = [(one.x0, one.x1, one.xref, one.name, one.showlegend) for one in figure.layout.shapes]
    assert found == [
        (0.5, 0.5, "x", "FONDUE", True),
        (4.0, 4.0, "x", "FONDUE_IB", True),
        (2.0, 2.0, "x2", "FONDUE", False),
    ]
    assert figure.layout.shapes[2].line.color == figure.data[1].line.color
    assert figure.layout.shapes[0].line.dash != figure.layout.shapes[1].line.dash


def test_a_mark_of_a_group_without_a_line_is_black() -> None:
    marks = [{"beta": 2.0, "model": "GON", "mark": "FONDUE"}]
    figure = chart_plot(lines(ROWS[:6], by="model", marks=marks)).figure
    assert [one.line.color for one in figure.layout.shapes] == ["#000000"]


def test_marks_alone_have_a_legend() -> None:
    figure = chart_plot(lines(ROWS[:3], marks=[{"beta": 2.0, "mark": "FONDUE"}])).figure
    assert figure.layout.showlegend
    assert [one.name for one in figure.layout.shapes] == ["FONDUE"]


def test_a_group_missing_from_a_panel_keeps_its_style_in_the_others() -> None:
    figure = chart_plot(lines(ROWS[3:9], by="model", panel="data")).figure
    assert [one.name for one in figure.data] == ["AE", "VAE"]
    assert figure.data[0].line.color != figure.data[1].line.color
    assert all(one.showlegend for one in figure.data)


def test_logarithmic_axes_have_a_tick_for_each_of_few_values() -> None:
    figure = chart_plot(lines(by="model", log_x=True, log_y=True, x_title="strength", y_title="score (nats)")).figure
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")
    assert figure.layout.xaxis.ticktext == ("0.1", "1", "10")
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("strength", "score (nats)")


def test_values_that_cannot_be_drawn_are_omitted_with_a_note() -> None:
    rows = [*ROWS[:3], {"beta": 0.0, "score": 1.0}, {"beta": 2.0, "score": float("nan")}, {"beta": 3.0, "score": None}]
    plot = chart_plot(lines(rows, log_x=True))
    assert plot.figure.data[0].x == (0.1, 1.0, 10.0)
    assert plot.sentence == (
        "They grow. Left out: 3 values that are not finite, or not positive on a logarithmic axis."
    )
    assert len(plot.rows) == 6


def test_a_chart_without_a_finite_number_says_so() -> None:
    plot = chart_plot(lines([{"beta": 1.0, "score": None}]))
    assert plot.figure.data == ()
    assert plot.figure.layout.annotations[0].text == "nothing to draw: no finite numbers"
    assert "1 value that is not finite." in plot.sentence


def test_names_on_the_axis_are_not_read_as_numbers() -> None:
    rows = [{"data": name, "score": 1.0} for name in ("mnist", "3", "a name that is longer than the room")]
    figure = chart_plot(Lines("Bars", "Three.", rows, "data", "score", kind="bars")).figure
    assert figure.data[0].type == "bar"
    assert figure.data[0].x == ("mnist", "3", "a name that is longer than the room")
    assert figure.layout.xaxis.type == "category"
    assert all(len(name) <= 18 for name in figure.layout.xaxis.ticktext)
    assert not figure.layout.showlegend


def test_bars_of_groups_differ_in_their_pattern() -> None:
    traces = chart_plot(lines(ROWS[:6], by="model", kind="bars")).figure.data
    assert [one.marker.pattern.shape for one in traces] == ["", "/"]


def test_points_are_not_joined_and_few_deviations_are_few_bars() -> None:
    rows = [{"x": 1.0, "y": 2.0, "sd": None}, {"x": 2.0, "y": 3.0, "sd": 0.25}]
    (trace,) = chart_plot(Lines("Points", "Two.", rows, "x", "y", kind="points")).figure.data
    assert trace.mode == "markers"
    assert trace.error_y.array == (None, 0.25)


@pytest.mark.parametrize(("panels", "columns"), [(1, 1), (6, 1), (7, 2)])
def test_many_panels_are_in_two_columns(panels: int, columns: int) -> None:
    rows = [{"x": x, "y": x, "panel": panel} for panel in range(panels) for x in (0, 1)]
    figure = chart_plot(Lines("Panels", "All.", rows, "x", "y", panel="panel")).figure
    assert len(figure.data) == panels
    starts = {figure.layout[f"xaxis{place or ''}"].domain[0] for place in (0, *range(2, panels + 1))}
    assert len(starts) == columns


def test_a_legend_of_many_names_increases_the_height() -> None:
    rows = [{"x": x, "y": x, "name": f"a rather long name {name}"} for name in range(10) for x in (0, 1)]
    few, many = (chart_plot(Lines("Names", "All.", rows[:count], "x", "y", "name")).figure for count in (4, 20))
    assert many.layout.margin.t - few.layout.margin.t == many.layout.height - few.layout.height > 100


def test_a_matrix_is_a_heatmap_with_one_row_for_each_cell() -> None:
    plot = chart_plot(Matrix("Alike", "All.", np.array([[1.0, 0.5], [0.25, np.nan]]), ["a", "b"], ["c", "d"], "CKA"))
    (drawn,) = plot.figure.data
    assert drawn.type == "heatmap"
    assert drawn.z[1][1] is None
    cells = list(csv.DictReader(io.StringIO(plot.csv())))
    assert cells[1] == {"row": "a", "column": "d", "CKA": "0.5"}


def test_an_empty_matrix_says_so() -> None:
    plot = chart_plot(Matrix("Alike", "All.", np.zeros((0, 0)), [], [], "CKA"))
    assert plot.figure.layout.annotations[0].text.startswith("nothing to draw")


def test_histograms_are_panels_with_bins_as_wide_as_their_edges() -> None:
    groups = {"active": ([0.0, 1.0, 3.0], [5, 2]), "passive": ([0.0, 1.0], [7])}
    plot = chart_plot(Histograms("Types", "Two.", groups, "mean"))
    one, other = plot.figure.data
    assert (one.x, one.width, one.y) == ((0.5, 2.0), (1.0, 2.0), (5.0, 2.0))
    assert other.yaxis == "y2"
    assert [title.text for title in plot.figure.layout.annotations] == ["active", "passive"]
    assert plot.figure.layout.xaxis2.title.text == "mean"
    assert plot.rows[1] == {"group": "active", "from": 1.0, "to": 3.0, "count": 2.0}


def test_pictures_are_rows_under_their_captions() -> None:
    strips = [
        ("latent <0>", torch.rand(3, 1, 8, 8)),
        ("without channels", torch.rand(3, 8, 8)),
        ("v", torch.rand(2, 5)),
    ]
    shown = chart_section(Pictures("Traversals", "From -2 to 2.", strips))
    assert shown.count("<img") == 2
    assert shown.count("<svg") == 1
    assert "latent &lt;0&gt;" in shown
    assert shown.count('class="scroll" tabindex="0"') == 3


def test_pictures_and_plots_are_separate() -> None:
    charts = [Pictures("P", "p.", [("one", torch.rand(1, 4))]), lines(), Histograms("H", "h.", {"a": ([0, 1], [1])})]
    plots, pictures = plots_and_pictures(charts)
    assert [plot.title for plot in plots] == ["Scores", "H"]
    assert len(pictures) == 1
