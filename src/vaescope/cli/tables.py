"""Rows as a table on the terminal, or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from vaescope.checks import without_infinities
from vaescope.tables import columns_of, text

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["columns_of", "print_json", "print_rows", "print_table"]

Row = dict[str, object]
PIPE_WIDTH = 100_000  # characters; wider than any table
SHOW_ALL = "`| less -S` shows all"  # a pipe has no width


def print_json(value: object) -> None:
    """Print one JSON document."""
    print(json.dumps(without_infinities(_plain(value)), indent=2, default=str, allow_nan=False))


def _plain(value: object) -> object:
    """Values of a database as JSON has them: decimals as numbers, unusual keys as text."""
    if isinstance(value, dict):
        kinds = str | int | None
        return {key if isinstance(key, kinds) else str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return float(value) if isinstance(value, Decimal) else value


def print_rows(rows: Sequence[Mapping[str, object]], more: str = SHOW_ALL) -> None:
    """Print rows as a table with all columns."""
    names = columns_of(rows)
    print_table(names, [[row.get(name) for name in names] for row in rows], more=more)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    title: str | None = None,
    *,
    first: Sequence[str] = (),
    more: str = SHOW_ALL,
) -> None:
    """Print a table: on a terminal the columns that fit, in a pipe all of them.

    Args:
        first: Columns to show first where not all fit, the most important first.
        more: How to see the columns that do not fit.
    """
    from rich.console import Console
    from rich.table import Table

    names, cells = [str(column) for column in columns], [[text(value) for value in row] for row in rows]
    on_terminal = sys.stdout.isatty()
    # Brackets and colons in the user's own words are not markup.
    console = Console(
        width=None if on_terminal else PIPE_WIDTH, soft_wrap=False, markup=False, emoji=False, highlight=False
    )
    if on_terminal:
        _print_fitting(console, names, cells, title, first, more)
        return
    table = Table(*names, title=title, title_justify="left", header_style="bold")
    for row in cells:
        table.add_row(*row)
    console.print(table)


def _print_fitting(
    console: Console, names: list[str], cells: list[list[str]], title: str | None, first: Sequence[str], more: str
) -> None:
    """Print the columns that fit the console, and how many do not."""
    from rich import box
    from rich.table import Table

    from vaescope.cli.widths import layout

    rank = {name: place for place, name in enumerate(dict.fromkeys([*first, *names]))}
    order = sorted(range(len(names)), key=lambda column: rank[names[column]])
    found = layout([[name, *(row[place] for row in cells)] for place, name in enumerate(names)], console.width, order)
    table = Table(title=title, title_justify="left", header_style="bold")
    if not found.ruled:
        table.box, table.show_edge, table.padding = box.SIMPLE_HEAD, False, 0
    for place, width in zip(found.shown, found.widths, strict=True):
        table.add_column(names[place], width=width, overflow="fold")
    for row in cells:
        table.add_row(*(row[place] for place in found.shown))
    console.print(table)
    left_out = len(names) - len(found.shown)
    if left_out:
        print(f"{left_out} {'column' if left_out == 1 else 'columns'} not shown: {more}")
