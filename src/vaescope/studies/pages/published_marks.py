"""The published values that belong into a chart: those of rows whose number is a point of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from vaescope.reporting import downsample
from vaescope.studies.charts import Lines
from vaescope.studies.numbers import VALUES
from vaescope.studies.pages.groups import Row
from vaescope.studies.results import JsonTable

MEASURE = "measure"  # the column of rows with the name of what was measured


def published_points(chart: Lines, rows: Sequence[Row]) -> list[JsonTable]:
    """A row of the chart for each published value: at the place of our point, with the published standard deviation.

    Values without one of ours are there too, if they differ from such a row only in their place on the x axis.

    Args:
        chart: The lines, points or bars.
        rows: The rows of the study, ours and the published numbers.
    """
    known = [row for row in rows if chart.rows and downsample.is_finite(row["published"])]
    found = [(row, point) for row in known for point in _points_of(row, chart)]
    lines = [_names(row, chart) for row, _ in found]
    alone = (row for row in known if row["ours"] is None and set(_drawn_names(chart)) <= set(row))
    found += [(row, row) for row in alone if _names(row, chart) in lines]
    return [_published(row, point, chart) for row, point in found]


def _published(row: Row, place: Row, chart: Lines) -> JsonTable:
    """The published value of a row at a place: the columns that are drawn."""
    spread = {chart.sd: row["published_sd"]} if chart.sd else {}
    return {**{name: place[name] for name in _drawn_names(chart)}, chart.y: row["published"], **spread}


def _drawn_names(chart: Lines) -> list[str]:
    """The columns that give a point its place, its group and its panel."""
    return [name for name in (chart.x, chart.by, chart.panel) if name]


def _names(row: Row, chart: Lines) -> JsonTable:
    """What the number of a row is of, but for its place on the x axis."""
    return {name: value for name, value in row.items() if name not in (*VALUES, chart.x, chart.y) and value is not None}


def _points_of(row: Row, chart: Lines) -> Iterator[Row]:
    """Our points of a row: they agree in all columns that both have, and in the number itself.

    If the row does not say the place, as for the end of a curve, it must name what the y axis shows, and the number
    must be found once.
    """
    if row["ours"] is None or (MEASURE in row and MEASURE not in chart.rows[0] and row[MEASURE] != chart.y):
        return
    named = _names(row, chart)
    if row.get(chart.x) is not None:
        named[chart.x] = row[chart.x]
    points = [
        point
        for point in chart.rows
        if downsample.is_finite(point[chart.y])
        and math.isclose(point[chart.y], row["ours"], rel_tol=1e-9)
        and all(_is_same(point[name], value) for name, value in named.items() if name in point)
    ]
    placed = set(_drawn_names(chart)) <= set(named)
    if placed or (len(points) == 1 and row.get(MEASURE) == chart.y):
        yield from points


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values are equal as numbers, where both are, or as text: strengths are text on bars."""
    try:
        return math.isclose(float(one), float(other))
    except (TypeError, ValueError):
        return str(one) == str(other)
