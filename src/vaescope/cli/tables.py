"""Rows as a table for people or as JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from vaescope.checks import without_infinities
from vaescope.showing import columns_of, text

__all__ = ["columns_of", "print_json", "print_rows", "print_table"]

WIDEST = 100_000  # characters; more than any table has


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(without_infinities(value), indent=2, default=str, allow_nan=False))


def print_rows(rows: Sequence[dict[str, Any]]) -> None:
    """Rows as a table with a column for every name."""
    names = columns_of(rows)
    print_table(names, [[row.get(name) for name in names] for row in rows])


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> None:
    """A table that fits a terminal; in a pipe, as wide as its content."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*(str(column) for column in columns), title=title, title_justify="left", header_style="bold")
    for row in rows:
        table.add_row(*(text(value) for value in row))
    width = None if sys.stdout.isatty() else WIDEST
    # Cells are the user's own words: brackets and colons in them are no markup.
    Console(width=width, soft_wrap=False, markup=False, emoji=False, highlight=False).print(table)
