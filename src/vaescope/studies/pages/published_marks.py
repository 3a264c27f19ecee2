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

    Args:
        chart: The lines, points or bars.
        rows: The rows of the study, ours and the published numbers.
    """
    found: list[JsonTable] = []
    for row in rows:
        if downsample.is_finite(row["published"]):
            for point in _points_of(row, chart):
                spread = {chart.sd: row["published_sd"]} if chart.sd else {}
                found.append({**point, **spread, chart.y: row["published"]})
    return found


def _points_of(row: Row, chart: Lines) -> Iterator[Row]:
    """Our points of a row: they agree in all columns that both have, and in the number itself.

    If the row does not say the place, as for the end of a curve, it must name what the y axis shows, and the number
    must be found once.
    """
    if row["ours"] is None or (MEASURE in row and MEASURE not in chart.rows[0] and row[MEASURE] != chart.y):
        return
    named = {name: value for name, value in row.items() if name not in VALUES and name != chart.y and value is not None}
    points = [
        point
        for point in chart.rows
        if downsample.is_finite(point[chart.y])
        and math.isclose(point[chart.y], row["ours"], rel_tol=1e-9)
        and all(_is_same(point[name], value) for name, value in named.items() if name in point)
    ]
    placed = {chart.x, chart.by or chart.x, chart.panel or chart.x} <= set(named)
    if placed or (len(points) == 1 and row.get(MEASURE) == chart.y):
        yield from points


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values are equal as numbers, where both are, or as text: strengths are text on bars."""
    try:
        return math.isclose(float(one), float(other))
    except (TypeError, ValueError):
        return str(one) == str(other)
