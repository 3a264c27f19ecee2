"""Round trips of charts through JSON tables."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vaescope.errors import DataError
from vaescope.studies.charts import Histograms, Lines, Matrix, Pictures, chart_of

WORDS = st.text(max_size=8)


@given(WORDS, st.one_of(st.none(), WORDS), st.booleans(), st.sampled_from(["lines", "points", "bars"]))
def test_lines_survive_a_round_trip(word: str, by: str | None, log: bool, kind: str) -> None:
    rows = [{"x": 1, "y": 0.5, "sd": None}, {"x": 2, "y": -1.0, "of": word}]
    chart = Lines(word, "Both.", rows, "x", "y", by, panel=by, sd=by, kind=kind, x_title=word, log_x=log, log_y=not log)
    assert chart_of(json.loads(json.dumps(chart.plain()))) == chart


def test_marks_of_lines_survive_a_round_trip_and_lines_without_marks_stay_so() -> None:
    without = Lines("Loss", "Falls.", [{"x": 1, "y": 0.5}], "x", "y")
    assert "marks" not in without.plain()
    chart = Lines("Loss", "Falls.", [{"x": 1, "y": 0.5}], "x", "y", marks=({"x": 1.5, "mark": "FONDUE"},))
    assert chart_of(json.loads(json.dumps(chart.plain()))) == chart


@given(st.one_of(st.none(), st.floats(0.1, 9)))
def test_a_matrix_survives_a_round_trip(largest: float | None) -> None:
    values = np.array([[0.25, math.nan], [1.0, -2.0]])
    chart = Matrix("Map", "Of two.", values, ["a", "b"], ["c", "d"], "CKA", largest)
    back = chart_of(json.loads(json.dumps(chart.plain(), allow_nan=False)))
    assert isinstance(back, Matrix)
    np.testing.assert_array_equal(back.matrix, values)
    assert {**vars(back), "matrix": 0} == {**vars(chart), "matrix": 0}


@pytest.mark.parametrize("table", [{"chart": "bars", "title": "Old", "sentence": "", "rows": []}, {"title": "None"}])
def test_tables_that_are_not_charts_are_refused(table: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"a chart must be of a known kind, with .*; got .* Make the study again\."):
        chart_of(table)


def test_the_charts_of_kept_studies_can_be_drawn() -> None:
    folder = Path(__file__).parents[2] / "docs" / "studies"
    charts = [chart for file in folder.glob("*.json") for chart in json.loads(file.read_text())["charts"]]
    assert len(charts) > 50
    assert all(chart_of(chart).title for chart in charts)


def test_histograms_survive_a_round_trip() -> None:
    chart = Histograms("Codes", "One.", {"a": ([0.0, 1.0, 2.0], [3.0, 4.0])}, "code")
    assert chart_of(json.loads(json.dumps(chart.plain()))) == chart


def test_what_rows_and_columns_of_a_matrix_are_survives_a_round_trip() -> None:
    chart = Matrix("Similarity", "High.", np.eye(2), ["a", "b"], ["a", "b"], "CKA", axes=("one", "other"))
    back = chart_of(json.loads(json.dumps(chart.plain())))
    assert isinstance(back, Matrix)
    assert back.axes == ("one", "other")
    assert "axes" not in Matrix("Similarity", "High.", np.eye(2), ["a", "b"], ["a", "b"], "CKA").plain()


def test_names_of_columns_of_pictures_survive_a_round_trip() -> None:
    chart = Pictures("Moves", "Two.", [("a", torch.rand(2, 1, 3, 3))], ["-1", "1"])
    back = chart_of(json.loads(json.dumps(chart.plain())))
    assert isinstance(back, Pictures)
    assert back.columns == ("-1", "1")
    assert "columns" not in Pictures("Moves", "Two.", chart.strips).plain()


def test_pictures_survive_a_round_trip_in_255_steps_and_in_order() -> None:
    strips = [("of three", torch.rand(3, 1, 4, 5)), ("beyond", torch.tensor([[[-1.0, 0.5, 2.0]]]))]
    back = chart_of(json.loads(json.dumps(Pictures("Samples", "Five.", strips).plain())))
    assert isinstance(back, Pictures)
    assert (back.title, back.sentence, [caption for caption, _ in back.strips]) == (
        "Samples",
        "Five.",
        ["of three", "beyond"],
    )
    for (_, items), (_, found) in zip(strips, back.strips, strict=True):
        torch.testing.assert_close(found, items.clamp(0, 1), rtol=0, atol=0.5 / 255 + 1e-6)
