"""Rows of a chart in groups: those of one panel, those of one line, and those that can be drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vaescope.reporting import downsample
from vaescope.studies.charts import Lines

Row = Mapping[str, Any]
Groups = dict[Any, list[Row]]


def grouped(rows: Sequence[Row], column: str | None) -> Groups:
    """The rows by their value in a column, in order of first appearance; without a column, one group."""
    groups: Groups = {}
    for row in rows:
        groups.setdefault(row.get(column) if column else None, []).append(row)
    return groups


def can_be_drawn(row: Row, chart: Lines) -> bool:
    """Whether a row has a finite place on both axes, positive on a logarithmic one."""
    x: Any = row.get(chart.x)
    y: Any = row.get(chart.y)
    if not downsample.is_finite(y) or x is None or (isinstance(x, float) and not downsample.is_finite(x)):
        return False
    return not (chart.log_y and y <= 0) and not (chart.log_x and downsample.is_finite(x) and x <= 0)


def full_sentence(chart: Lines) -> str:
    """The sentence of a chart, and how many values it leaves out."""
    missing = sum(not can_be_drawn(row, chart) for row in chart.rows)
    if not missing:
        return chart.sentence
    why = "not finite, or not positive on a logarithmic axis" if chart.log_x or chart.log_y else "not finite"
    counted = "1 value that is" if missing == 1 else f"{missing} values that are"
    return f"{chart.sentence} Left out: {counted} {why}."


def group_name(column: str | None, value: Any) -> str:
    """A value as legends show it; a number with its column's name."""
    if downsample.is_finite(value):
        return f"{words(column or '')} {value:g}".strip()
    return str(value)


def words(name: str) -> str:
    """The name of a column in words."""
    return name.replace("_", " ")


def axis_titles(chart: Lines) -> tuple[str, str]:
    """The titles of the x axis and of the y axis."""
    return chart.x_title or words(chart.x), chart.y_title or words(chart.y)
