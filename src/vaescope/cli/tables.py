"""Rows as a table for people or as JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(value, indent=2, default=str))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> None:
    """A table that fits a terminal; in a pipe, as wide as its content."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*(str(column) for column in columns), title=title, title_justify="left", header_style="bold")
    for row in rows:
        table.add_row(*(text(value) for value in row))
    Console(width=None if sys.stdout.isatty() else 240, soft_wrap=False).print(table)


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names that occur in any row, in order of first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def text(value: Any) -> str:
    """A cell: numbers with five figures, nothing for None."""
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)
