"""Plots of FONDUE and of the elbow, from results and from tables that were kept."""

from __future__ import annotations

import csv
import io
import json

import pytest

from vaescope.checks import without_infinities
from vaescope.reporting.sizing_plots import elbow_plot, fondue_plot, gap_curve
from vaescope.sizing.elbow import Elbow, ElbowPoint
from vaescope.sizing.result import Answer, Fondue, Probe
from vaescope.sizing.search import SearchResult


def found(over: str = "latents") -> Fondue:
    looks = tuple(Probe(size, 0, 2, 5.0 + gap, 5.0, gap) for size, gap in ((4, 0.0), (8, 0.5), (9, 1.5)))
    answer = Answer(0, 8, 2, True, SearchResult((8, 9), ((4, 0.0), (8, 0.5), (9, 1.5)), 1.0))
    return Fondue(over, "trace", 1.0, (answer,), looks, 4, None, 10, 10, 60, 1.0, {"name": "made up", "shape": [8, 8]})


@pytest.mark.parametrize(("over", "title"), [("latents", "Number of latents"), ("beta", "Largest beta")])
def test_a_search_is_drawn_alike_from_itself_and_from_its_table(over: str, title: str) -> None:
    result = found(over)
    table = json.loads(json.dumps(without_infinities(result.plain())))
    one, other = fondue_plot(result), fondue_plot(table)
    assert one.title == other.title == title
    assert one.sentence == other.sentence == result.summary()
    assert one.rows == other.rows == result.curve
    assert one.figure.to_json() == other.figure.to_json() == gap_curve(result).to_json()
    assert list(csv.DictReader(io.StringIO(one.csv())))[2]["gap"] == "1.5"


def test_an_elbow_is_drawn_with_a_row_for_each_size() -> None:
    elbow = Elbow(8, tuple(ElbowPoint(size, (loss,)) for size, loss in ((2, 90.0), (8, 20.0), (16, 18.0))))
    plot = elbow_plot(elbow)
    assert plot.sentence.startswith("The elbow is at 8 latents")
    assert [float(row["loss"]) for row in csv.DictReader(io.StringIO(plot.csv()))] == [90.0, 20.0, 18.0]
