"""Plots of FONDUE and of the elbow check: their points, their marks and their rows."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
from typing import Any

import pytest

from vaescope.checks import without_infinities
from vaescope.reporting.sizing_plots import elbow_plot, fondue_plot
from vaescope.sizing.elbow import Elbow, ElbowPoint
from vaescope.sizing.result import Answer, Fondue, Probe
from vaescope.sizing.search import SearchResult

SIZES = (4, 8, 12, 13, 16, 32)


def found(seeds: int = 3, values: tuple[float, ...] = (12, 13, 12), **changes: Any) -> Fondue:
    """A search with the gap max(0, size - 12) + seed / 10."""
    own: dict[str, Any] = {"over": "latents", "gap": "trace", "threshold": 1.0, **changes}
    gaps = [(size, seed, max(0.0, size - 12) + seed / 10) for size in SIZES for seed in range(seeds)]
    probes = tuple(Probe(size, seed, 2, 5 + gap, 5.0, gap) for size, seed, gap in gaps)
    answers = tuple(
        Answer(seed, values[seed], 2, True, SearchResult((12, 13), ((12, 0.0), (13, 1.1)), 1.0))
        for seed in range(seeds)
    )
    counts = {"start": 8, "dimension": None, "period": 10, "steps_per_epoch": 10, "trained_steps": 90, "seconds": 1.0}
    return Fondue(answers=answers, **{"probes": probes, **counts, "data": {"name": "made up", "shape": [8, 8]}, **own})


def without_terms(one: Fondue) -> Fondue:
    probes = tuple(dataclasses.replace(probe, minuend=probe.gap, subtrahend=0.0) for probe in one.probes)
    return dataclasses.replace(one, gap="mine", probes=probes)


def bent(chosen: int | None = 12, seeds: int = 2, accuracies: bool = True) -> Elbow:
    losses = {3: 90.0, 6: 50.0, 12: 20.0, 24: 19.0, 36: 18.0}
    points = tuple(
        ElbowPoint(size, tuple(loss + seed for seed in range(seeds)), (size / 40,) * seeds if accuracies else None)
        for size, loss in losses.items()
    )
    return Elbow(chosen, points, ("shape",) if accuracies else (), 0.25 if accuracies else None)


def trace(figure: Any, name: str) -> Any:
    (one,) = [one for one in figure.data if one.name == name]
    return one


def gap_curve(one: Fondue) -> Any:
    return fondue_plot(one).figure


def elbow_curve(one: Elbow) -> Any:
    return elbow_plot(one).figure


def shape(figure: Any, name: str) -> Any:
    (one,) = [one for one in figure.layout.shapes if one.name == name]
    return one


def names(figure: Any) -> set[str]:
    return {one.name for one in figure.layout.shapes}


def label(figure: Any, name: str) -> Any:
    (one,) = [one for one in figure.layout.annotations if one.name == name]
    return one


def test_the_traces_of_figure_8_1_equal_the_curve() -> None:
    result = found()
    figure = gap_curve(result)
    for name, key in (
        ("Tr Var[Z]", "minuend"),
        ("Tr Var[M]", "subtrahend"),
        ("gap", "gap"),
        ("highest", "high"),
        ("range over seeds", "low"),
    ):
        assert trace(figure, name).x == SIZES
        assert trace(figure, name).y == tuple(row[key] for row in result.curve)
    assert trace(figure, "Tr Var[Z]").yaxis == trace(figure, "Tr Var[M]").yaxis == "y"
    assert trace(figure, "gap").yaxis == trace(figure, "range over seeds").yaxis == "y2"


def test_the_answer_its_interval_and_the_threshold_are_marked() -> None:
    result = found(threshold=0.75)
    figure = gap_curve(result)
    assert (shape(figure, "chosen").x0, shape(figure, "chosen").x1) == (12, 12)
    assert (shape(figure, "interval").x0, shape(figure, "interval").x1) == result.interval
    for name in ("chosen", "interval"):
        assert (shape(figure, name).yref, shape(figure, name).y0, shape(figure, name).y1) == ("paper", 0, 1)
    line = shape(figure, "threshold")
    assert (line.y0, line.y1, line.yref, line.xref) == (0.75, 0.75, "y2", "x2 domain")
    assert label(figure, "chosen").x == 12
    assert label(figure, "chosen").text.startswith("<b>12 latents</b><br>95% interval 10.9 to 13.8")


def test_the_legend_is_inside_the_figure_above_the_panels() -> None:
    layout = gap_curve(found()).layout
    assert layout.showlegend
    shown = [one.name for one in gap_curve(found()).data if one.showlegend is not False]
    assert shown == ["Tr Var[Z]", "Tr Var[M]", "range over seeds"]
    assert (layout.legend.y, layout.legend.yref, layout.legend.yanchor) == (1, "container", "top")
    assert not gap_curve(without_terms(found(1))).layout.showlegend


def test_one_seed_has_neither_band_nor_interval() -> None:
    figure = gap_curve(found(1))
    assert {one.name for one in figure.data} == {"Tr Var[Z]", "Tr Var[M]", "gap"}
    assert names(figure) == {"threshold", "chosen"}
    assert label(figure, "chosen").text == "<b>12 latents</b>"


@pytest.mark.parametrize(
    ("gap", "terms", "title"),
    [
        ("trace", {"Tr Var[Z]", "Tr Var[M]"}, "Tr Var[Z] − Tr Var[M]"),
        ("dimension", {"dimension of Z", "dimension of M"}, "dimension of Z − dimension of M"),
        ("information", {"H(z)", "I(x, x̂)"}, "H(z) − I(x, x̂)"),
        ("mine", {"first term", "second term"}, "gap (mine)"),
    ],
)
def test_the_terms_have_the_names_of_their_gap(gap: str, terms: set[str], title: str) -> None:
    figure = gap_curve(found(1, gap=gap))
    assert {one.name for one in figure.data} == {*terms, "gap"}
    assert figure.layout.yaxis2.title.text == title


def test_a_gap_without_terms_has_one_panel() -> None:
    figure = gap_curve(without_terms(found(1)))
    assert [(one.name, one.yaxis) for one in figure.data] == [("gap", "y")]
    assert figure.layout.yaxis.title.text == "gap (mine)"
    assert figure.layout.xaxis.title.text == "number of latents"
    assert shape(figure, "threshold").yref == "y"
    assert figure.layout.height < gap_curve(found(1)).layout.height


def test_a_built_in_gap_keeps_its_terms_if_one_is_0() -> None:
    flat = dataclasses.replace(without_terms(found(1)), gap="dimension")
    assert trace(gap_curve(flat), "dimension of M").y == (0,) * len(SIZES)


def test_a_strength_has_a_logarithmic_axis_with_the_mark_at_its_value() -> None:
    result = found(3, (8.0, 8.0, 9.5), over="beta")
    figure = gap_curve(result)
    assert figure.layout.xaxis.type == figure.layout.xaxis2.type == "log"
    assert figure.layout.xaxis2.title.text == "beta"
    assert shape(figure, "chosen").x0 == pytest.approx(8.5)
    assert label(figure, "chosen").x == pytest.approx(math.log10(8.5))
    assert label(figure, "chosen").text.startswith("<b>beta 8.5</b>")
    assert figure.layout.xaxis2.tickvals == (4, 8, 16, 32)


def test_an_interval_that_reaches_0_is_cut_on_a_logarithmic_axis() -> None:
    result = found(3, (1.0, 1.0, 30.0), over="beta")
    assert result.interval is not None
    assert result.interval[0] == 0
    assert shape(gap_curve(result), "interval").x0 == min(SIZES)


def test_a_strength_of_0_is_not_marked_on_a_logarithmic_axis() -> None:
    assert names(gap_curve(found(1, (0.0,), over="beta"))) == {"threshold"}
    assert shape(gap_curve(found(1, (0,))), "chosen").x0 == 0


def test_few_latents_have_ticks_at_whole_numbers() -> None:
    few = tuple(probe for probe in found(1).probes if probe.value <= 12)
    assert gap_curve(found(1, probes=few)).layout.xaxis2.dtick == 1
    assert gap_curve(found(1)).layout.xaxis2.dtick is None


@pytest.mark.parametrize(("chosen", "side"), [(8, "left"), (32, "right")])
def test_a_label_is_on_the_side_with_room(chosen: int, side: str) -> None:
    mark = label(gap_curve(found(1, (chosen,))), "chosen")
    assert (mark.xanchor, mark.align, mark.xshift > 0) == (side, side, side == "left")


def test_the_traces_of_figure_8_5_equal_the_points() -> None:
    elbow = bent()
    figure = elbow_curve(elbow)
    loss, accuracy = trace(figure, "reconstruction loss"), trace(figure, "accuracy")
    assert loss.x == accuracy.x == (3, 6, 12, 24, 36)
    assert loss.y == tuple(point.loss for point in elbow.points)
    assert loss.error_y.array == tuple(point.loss_sd for point in elbow.points)
    assert accuracy.y == tuple(point.accuracy for point in elbow.points)
    assert accuracy.error_y.array == (0,) * 5
    assert (loss.yaxis, accuracy.yaxis) == ("y", "y2")
    line = shape(figure, "majority")
    assert (line.y0, line.y1, line.yref, line.line.dash) == (0.25, 0.25, "y2", "dot")


def test_without_accuracies_there_is_one_panel_and_with_one_seed_no_bars() -> None:
    (loss,) = elbow_curve(bent(seeds=1, accuracies=False)).data
    assert (loss.name, loss.yaxis) == ("reconstruction loss", "y")
    assert loss.error_y.array is None


@pytest.mark.parametrize(
    ("chosen", "marks"),
    [
        (12, {"chosen": (12, "12 chosen, the elbow")}),
        (10, {"chosen": (10, "10 chosen"), "elbow": (12, "elbow at 12")}),
        (None, {"elbow": (12, "elbow at 12")}),
    ],
)
def test_the_chosen_number_and_the_elbow_are_marked(chosen: int | None, marks: dict[str, tuple[int, str]]) -> None:
    figure = elbow_curve(bent(chosen, accuracies=False))
    assert names(figure) == set(marks)
    for name, (place, text) in marks.items():
        assert (shape(figure, name).x0, shape(figure, name).x1, label(figure, name).text) == (place, place, text)


@pytest.mark.parametrize(("over", "title"), [("latents", "Number of latents"), ("beta", "Largest beta")])
def test_a_search_and_its_saved_form_give_the_same_plot(over: str, title: str) -> None:
    result = found(over=over)
    saved = json.loads(json.dumps(without_infinities(result.plain())))
    one, other = fondue_plot(result), fondue_plot(Fondue.from_plain(saved))
    assert one.title == other.title == title
    assert one.sentence == other.sentence == result.summary()
    assert one.rows == other.rows == result.curve
    assert one.figure.to_json() == other.figure.to_json()


def test_an_elbow_plot_has_a_row_for_each_size() -> None:
    plot = elbow_plot(bent())
    assert plot.sentence[0].isupper()
    assert [int(row["latents"]) for row in csv.DictReader(io.StringIO(plot.csv()))] == [3, 6, 12, 24, 36]
