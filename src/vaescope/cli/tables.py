"""Rows as a table for people or as JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from vaescope.checks import without_infinities
from vaescope.tables import columns_of, text

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["columns_of", "print_json", "print_rows", "print_table"]

WIDEST = 100_000  # characters; more than any table has
MORE = "`| less -S` shows all"  # a pipe is as wide as it needs to be


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(without_infinities(_plain(value)), indent=2, default=str, allow_nan=False))


def _plain(value: Any) -> Any:
    """What databases have and JSON has not: decimals are numbers, and keys that are none of its kinds are text."""
    if isinstance(value, dict):
        kinds = str | int | None
        return {key if isinstance(key, kinds) else str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return float(value) if isinstance(value, Decimal) else value


def print_rows(rows: Sequence[dict[str, Any]], more: str = MORE) -> None:
    """Rows as a table with a column for every name."""
    names = columns_of(rows)
    print_table(names, [[row.get(name) for name in names] for row in rows], more=more)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    title: str | None = None,
    *,
    first: Sequence[str] = (),
    more: str = MORE,
) -> None:
    """A table; in a pipe as wide as its content, on a terminal with the columns that fit.

    `first` names the columns that others make way for, the most telling first; where some do not fit, a line says
    how many, and `more` how to see them.
    """
    from rich.console import Console
    from rich.table import Table

    names, cells = [str(column) for column in columns], [[text(value) for value in row] for row in rows]
    # Cells are the user's own words: brackets and colons in them are no markup.
    plain: dict[str, Any] = {"soft_wrap": False, "markup": False, "emoji": False, "highlight": False}
    if sys.stdout.isatty():
        _print_fitting(Console(**plain), names, cells, title, first, more)
        return
    table = Table(*names, **_titled(title))
    for row in cells:
        table.add_row(*row)
    Console(width=WIDEST, **plain).print(table)


def _titled(title: str | None) -> dict[str, Any]:
    return {"title": title, "title_justify": "left", "header_style": "bold"}


def _print_fitting(
    console: Console, names: list[str], cells: list[list[str]], title: str | None, first: Sequence[str], more: str
) -> None:
    """The columns that fit the console, and how many do not."""
    from rich import box
    from rich.table import Table

    from vaescope.cli.widths import layout

    rank = {name: place for place, name in enumerate(dict.fromkeys([*first, *names]))}
    order = sorted(range(len(names)), key=lambda column: rank[names[column]])
    found = layout([[name, *(row[place] for row in cells)] for place, name in enumerate(names)], console.width, order)
    style: dict[str, Any] = {} if found.ruled else {"box": box.SIMPLE_HEAD, "show_edge": False, "padding": 0}
    table = Table(**_titled(title), **style)
    for place, width in zip(found.shown, found.widths, strict=True):
        table.add_column(names[place], width=width, overflow="fold")
    for row in cells:
        table.add_row(*(row[place] for place in found.shown))
    console.print(table)
    left_out = len(names) - len(found.shown)
    if left_out:
        print(f"{left_out} {'column' if left_out == 1 else 'columns'} not shown: {more}")
