"""Rows of runs, filtered and sorted: `vaescope.runs.table`.

In Python, not in duckdb: a filter may be a function, a cell may be a list, and numbers are compared up to rounding;
making a duckdb table of the rows takes longer than filtering and sorting them here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from vaescope.checks import whole_number
from vaescope.errors import ConfigurationError, unknown_name
from vaescope.runs.columns import Row, drop_constant_settings
from vaescope.runs.rows import read_rows
from vaescope.tables import columns_of

Where: TypeAlias = Mapping[str, object] | Callable[[Row], bool] | None


def table(
    folder: str | Path = "runs", where: Where = None, sort: str | None = None, limit: int | None = None
) -> list[Row]:
    """One row for each run of a folder: settings, last values of the history, and measurements.

    Settings that are the same in all runs are not in the rows, but can be used in `where` and `sort`.

    Args:
        folder: Folder of runs.
        where: Column -> the value, or a list of the values, that a row must have (None: no value); or a function of a
            row that returns whether to keep it.
        sort: A column, or "-column" for descending order. Rows without a value come last.
        limit: Maximum number of rows.
    """
    return drop_constant_settings(select_rows(read_rows(Path(folder)), where, sort, limit))


def select_rows(rows: list[Row], where: Where = None, sort: str | None = None, limit: int | None = None) -> list[Row]:
    """Filter, sort and cut rows."""
    count = None if limit is None else whole_number("limit", limit, 1)
    kept = _filtered(rows, where)
    if sort is not None:
        if not isinstance(sort, str):
            raise ConfigurationError(f"sort must be the name of one column, got {sort!r}.")
        column = sort.removeprefix("-")
        check_columns(rows, [column], "sort")
        kept = _sorted(kept, column, descending=sort.startswith("-"))
    return kept[:count]


def check_columns(rows: Sequence[Row], names: Iterable[str], option: str) -> None:
    """Raise an error unless every name is a column of some row; without rows, no column is known."""
    known = columns_of(rows)
    for name in names:
        if rows and name not in known:
            raise unknown_name(f"the column of {option}", name, known)


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


def _values(value: object) -> list[object]:
    return [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)


def _is_among(cell: object, values: list[object]) -> bool:
    if isinstance(cell, str) and (listed := _list_in(cell)) is not None:
        # A setting that is a list may be given as a list or as its text.
        return listed == values or any(listed == _list_in(value) for value in values)
    return any(cell is None if value is None else _is_equal(cell, value) for value in values)


def _list_in(value: object) -> list[object] | None:
    """A list, also if it is given as JSON; None for anything else."""
    if isinstance(value, str) and value.startswith("["):
        with suppress(ValueError):
            found: list[object] = json.loads(value)
            return found
    return list(value) if isinstance(value, list | tuple) else None


def _is_equal(cell: object, value: object) -> bool:
    """Numbers are equal up to rounding: a listing shows 0.1 * 3 as 0.3."""
    if isinstance(cell, float) and isinstance(value, int | float):
        return math.isclose(cell, value)
    return cell == value


def _sorted(rows: list[Row], column: str, descending: bool) -> list[Row]:
    """Rows with numbers, then with text, then without a value; the order of equal rows is kept."""
    present = [row for row in rows if not _is_missing(row.get(column))]
    missing = [row for row in rows if _is_missing(row.get(column))]
    present.sort(key=lambda row: (isinstance(row[column], str), row[column]), reverse=descending)
    return present + missing


def _is_missing(cell: object) -> bool:
    return cell is None or cell != cell  # only NaN is not itself
