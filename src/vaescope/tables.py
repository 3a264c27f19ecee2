"""Rows of results as text, CSV and HTML: the same table in a terminal, a report and a notebook."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from vaescope.markup import Markup, element

MAX_HTML_ROWS = 200
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # of text that spreadsheets run

# One row of a result: cells by column, numbers, text or None.
Row: TypeAlias = dict[str, Any]


def rows_from_columns(columns: Mapping[str, Iterable[object]]) -> list[Row]:
    """The rows of a table that is given by its columns."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def columns_of(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """The names that occur in any row, in order of first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def text(value: object) -> str:
    """A cell as text: floats with five significant digits, None as nothing."""
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def csv_text(rows: Sequence[Mapping[str, object]], names: Sequence[str] | None = None) -> str:
    """The rows as comma-separated text with the named columns (default: all, in order of first appearance).

    Text that a spreadsheet would run as a formula is prefixed with an apostrophe.
    """
    written = io.StringIO()
    chosen = columns_of(rows) if names is None else names
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(map(_as_cell, chosen))
    writer.writerows([_as_cell(row.get(name)) for name in chosen] for row in rows)
    return written.getvalue()


def _as_cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value


def table(rows: Sequence[Mapping[str, object]], caption: str, max_rows: int = MAX_HTML_ROWS) -> Markup:
    """An HTML table of the first `max_rows` rows; its caption says how many there are."""
    names = columns_of(rows)
    head = element("tr", *[element("th", name.replace("_", " "), scope="col") for name in names])
    body = [element("tr", *[element("td", text(row.get(name))) for name in names]) for row in rows[:max_rows]]
    more = f" (the first {max_rows} of {len(rows)})" if len(rows) > max_rows else ""
    whole = element(
        "table", element("caption", f"{caption}{more}"), element("thead", head), element("tbody", *body), class_="plain"
    )
    # A focusable region, so that a wide table scrolls by keyboard too.
    return element("div", whole, class_="scroll", tabindex=0, role="region", aria_label=caption)
