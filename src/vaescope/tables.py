"""Rows as text, CSV and HTML: the same table in a terminal, a report and a notebook."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from vaescope.markup import Markup, element

MOST_ROWS = 200


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names that occur in any row, in order of first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def text(value: Any) -> str:
    """A cell: numbers with five figures, nothing for None."""
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def csv_text(rows: Sequence[Mapping[str, Any]], names: Sequence[str] | None = None) -> str:
    """The rows as text with commas, with the named columns, or all in order of first appearance."""
    written = io.StringIO()
    chosen = columns_of(rows) if names is None else names
    writer = csv.DictWriter(written, chosen, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue()


def table(rows: Sequence[Mapping[str, Any]], caption: str, most: int = MOST_ROWS) -> Markup:
    """The rows under their columns' names; of very many, the first, and how many more there are."""
    names = columns_of(rows)
    head = element("tr", *[element("th", name.replace("_", " "), scope="col") for name in names])
    body = [element("tr", *[element("td", text(row.get(name))) for name in names]) for row in rows[:most]]
    more = f" (the first {most} of {len(rows)})" if len(rows) > most else ""
    whole = element(
        "table", element("caption", f"{caption}{more}"), element("thead", head), element("tbody", *body), class_="plain"
    )
    # A wide table scrolls by itself, by keyboard too.
    return element("div", whole, class_="scroll", tabindex=0, role="region", aria_label=caption)
