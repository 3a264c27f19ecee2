"""Rows of runs, filtered and sorted: `vaescope.runs.table`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from vaescope.checks import whole_number
from vaescope.errors import ConfigurationError, unknown_name
from vaescope.runs.columns import drop_constant_settings
from vaescope.runs.rows import read_rows
from vaescope.tables import columns_of

Row = dict[str, Any]
Where = Mapping[str, Any] | Callable[[Row], bool] | None


def table(
    folder: str | Path = "runs", where: Where = None, sort: str | None = None, limit: int | None = None
) -> list[Row]:
    """One row for each run of a folder: settings, last values of the history, and measurements.

    Settings in which the runs do not differ are left out, but can be asked for and sorted by.

    `where` maps columns to the value, or a list of the values, that a row must have there (None: the row has no
    value), or is a function that says of a row whether it is wanted. `sort` is a column, or "-column" for the largest
    first; rows without a value come last. `limit` is how many rows there are at most.
    """
    return drop_constant_settings(chosen(read_rows(Path(folder)), where, sort, limit))


def chosen(rows: list[Row], where: Where = None, sort: str | None = None, limit: int | None = None) -> list[Row]:
    """The rows that are wanted, in the order that is."""
    most = None if limit is None else whole_number("limit", limit, 1)
    kept = _filtered(rows, where)
    if sort is not None:
        if not isinstance(sort, str):
            raise ConfigurationError(f"sort must be the name of one column, got {sort!r}.")
        column = sort.removeprefix("-")
        check_columns(rows, [column], "sort")
        kept = _sorted(kept, column, descending=sort.startswith("-"))
    return kept[:most]


def check_columns(rows: Sequence[Row], names: Iterable[str], asked: str) -> None:
    """Every name is a column of some row; where there are no rows, nothing is known of their columns."""
    known = columns_of(rows)
    for name in names:
        if rows and name not in known:
            raise unknown_name(f"the column of {asked}", name, known)


def _filtered(rows: list[Row], where: Where) -> list[Row]:
    if where is None:
        return rows
    if callable(where):
        return [row for row in rows if where(row)]
    if not isinstance(where, Mapping):
        raise ConfigurationError(f"where must map columns to values or be a function of a row, got {where!r}.")
    check_columns(rows, where, "where")
    wanted = {name: _values(value) for name, value in where.items()}
    return [row for row in rows if all(_is_among(row.get(name), values) for name, values in wanted.items())]


def _values(value: Any) -> list[Any]:
    return [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)


def _is_among(cell: Any, values: list[Any]) -> bool:
    if isinstance(cell, str) and (own := _list_in(cell)) is not None:
        # A setting that is a list itself may be asked for as one, or as its text.
        return own == values or any(own == _list_in(value) for value in values)
    return any(cell is None if value is None else _is_equal(cell, value) for value in values)


def _list_in(value: Any) -> list[Any] | None:
    """What stands in brackets, however it is spaced; None for what is no list."""
    if isinstance(value, str) and value.startswith("["):
        with suppress(ValueError):
            return json.loads(value)
    return list(value) if isinstance(value, list | tuple) else None


def _is_equal(cell: Any, value: Any) -> bool:
    """Numbers are equal up to rounding: 0.1 * 3 is what a listing shows as 0.3."""
    if isinstance(cell, float) and isinstance(value, int | float):
        return math.isclose(cell, value)
    return cell == value


def _sorted(rows: list[Row], column: str, descending: bool) -> list[Row]:
    """Rows with a number or text in the column, numbers before text, then those without; equals stay as they were."""
    there = [row for row in rows if not _is_missing(row.get(column))]
    missing = [row for row in rows if _is_missing(row.get(column))]
    there.sort(key=lambda row: (isinstance(row[column], str), row[column]), reverse=descending)
    return there + missing


def _is_missing(cell: Any) -> bool:
    return cell is None or cell != cell  # only NaN is not itself
