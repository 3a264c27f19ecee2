"""Output of commands: tables that fit the terminal, JSON, CSV, and checks of output files."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from vaescope.checks import without_infinities
from vaescope.files import check_page, check_writable, write_text
from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.runs.type_counts import FINAL, MEASUREMENT, PROBE, TYPES_FROM, TYPES_ITEMS
from vaescope.tables import columns_of, csv_text, text
from vaescope.terminal import print_line, printable

PIPE_WIDTH = 100_000  # characters; wider than any table
MAX_UNBROKEN_WORD = 24  # characters; longer words, such as paths, continue on the next line
READABLE_WIDTH = 28  # characters of a column of text, which less important columns do not take away
RULED_PADDING, PLAIN_PADDING = 3, 1  # characters per column, with and without lines between columns
SHOW_ALL = "`| less -S` shows all"  # for pipes, which have no width
# Columns of runs to show after the settings that vary, losses, types and measurements, the most important first.
PRIORITY_COLUMNS = ("status", "latents", "seed", "step", "data", "objective", "model")

COUNTED = (TYPES_ITEMS, TYPES_FROM)
COUNTED_WHEN = {FINAL: " after training", PROBE: " during training", MEASUREMENT: ""}

Row = dict[str, Any]


def print_json(value: object) -> None:
    """Print one JSON document."""
    print(json.dumps(without_infinities(_plain(value)), indent=2, default=str, allow_nan=False))


def _plain(value: object) -> object:
    """Values of a database as JSON types: decimals as numbers, unusual keys as text."""
    if isinstance(value, dict):
        return {key if isinstance(key, str | int | None) else str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return float(value) if isinstance(value, Decimal) else value


def print_styled(*pieces: tuple[str, str]) -> None:
    """Print a paragraph of (text, style) pieces; only a terminal shows the styles."""
    from rich.console import Console
    from rich.text import Text

    words = Text.assemble(*((printable(text), style) for text, style in pieces))
    Console(highlight=False, soft_wrap=not sys.stdout.isatty()).print(words)


def print_paragraph(label: tuple[str, str], *lines: Sequence[tuple[str, str]]) -> None:
    """Print lines of (text, style) pieces next to a label; a terminal breaks them between words, below one another."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not sys.stdout.isatty():
        for place, line in enumerate(lines):
            print_styled((label[0] if place == 0 else " " * len(label[0]), label[1]), ("  ", ""), *line)
        return
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    for place, line in enumerate(lines):
        pieces = Text.assemble(*((printable(text), style) for text, style in line))
        grid.add_row(Text(*label) if place == 0 else "", pieces)
    Console(highlight=False).print(grid)


def print_rows(
    rows: Sequence[Mapping[str, object]],
    names: Sequence[str] | None = None,
    title: str | None = None,
    *,
    first: Sequence[str] = (),
    more: str = SHOW_ALL,
) -> None:
    """Print the named columns of rows (default: all) as `print_table` does."""
    names = columns_of(rows) if names is None else names
    print_table(names, [[row.get(name) for name in names] for row in rows], title, first=first, more=more)


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
    from rich import box
    from rich.console import Console
    from rich.table import Table

    names = [printable(str(column)) for column in columns]
    cells = [[printable(text(value)) for value in row] for row in rows]
    on_terminal = sys.stdout.isatty()
    # Brackets and colons in the user's text are not markup.
    console = Console(width=None if on_terminal else PIPE_WIDTH, markup=False, emoji=False, highlight=False)
    table = Table(title=None if title is None else printable(title), title_justify="left", header_style="bold")
    shown: Sequence[int] = range(len(names))
    if on_terminal:
        order = sorted(shown, key=lambda place: [*first, *names].index(names[place]))
        columns_of_text = [[name, *(row[place] for row in cells)] for place, name in enumerate(names)]
        found = layout(columns_of_text, console.width, order)
        shown = found.shown
        if not found.ruled:
            table.box, table.show_edge, table.padding = box.SIMPLE_HEAD, False, 0
        for place, width in zip(shown, found.widths, strict=True):
            table.add_column(names[place], width=width, overflow="fold")
    else:
        for name in names:
            table.add_column(name)
    for row in cells:
        table.add_row(*(row[place] for place in shown))
    console.print(table)
    left_out = len(names) - len(shown)
    if left_out:
        print_line(f"{left_out} {'column' if left_out == 1 else 'columns'} not shown: {more}")


@dataclass(frozen=True)
class TableLayout:
    """The positions of the visible columns, their widths, and whether lines separate them."""

    shown: tuple[int, ...]
    widths: tuple[int, ...]
    ruled: bool


def layout(columns: Sequence[Sequence[str]], room: int, order: Sequence[int]) -> TableLayout:
    """Choose the columns that fit into `room` characters, by priority.

    A column is at least as wide as its longest word, and a column of text is wide enough to read as long as there are
    others to drop. Lines between columns are dropped before any column is.

    Args:
        columns: Header and cells of each column.
        room: Width of the terminal in characters.
        order: Positions of the columns, the most important first.
    """
    natural = [min(max(1, *map(_width, column)), room) for column in columns]
    words = [max(_width(word) for text in column for word in [*text.split(), ""]) for column in columns]
    least = [min(wide, max(1, word), MAX_UNBROKEN_WORD) for wide, word in zip(natural, words, strict=True)]
    readable = [max(word, min(wide, READABLE_WIDTH)) for wide, word in zip(natural, least, strict=True)]
    shown, within = list(range(len(columns))), room - (RULED_PADDING * len(columns) + 1)
    ruled = sum(readable) <= within
    if not ruled:
        shown = []
        for column in order:
            if not shown or sum(readable[one] + PLAIN_PADDING for one in (*shown, column)) - PLAIN_PADDING <= room:
                shown.append(column)
        shown.sort()
        within = room - PLAIN_PADDING * (len(shown) - 1)
    widths = {one: natural[one] for one in shown}
    while sum(widths.values()) > within:
        # The widest column becomes narrower, unless it would break words.
        spare = {one: width for one, width in widths.items() if width > least[one]}
        if not spare:
            break
        widths[max(spare, key=spare.__getitem__)] -= 1
    return TableLayout(tuple(shown), tuple(widths.values()), ruled)


def _width(text: str) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, text.splitlines()), default=0)


def print_runs(rows: Sequence[Row], names: Sequence[str], folder: Path, more: str) -> None:
    """Print columns of the runs in a folder; a narrow terminal shows the most important ones."""
    counted = [] if any(varies(rows, name) for name in COUNTED) else [name for name in COUNTED if name in names]
    names = [name for name in names if name not in counted]
    # The order requires reading files again; a pipe shows all columns anyway.
    first = _by_importance(rows, names, measured_names(rows, folder)) if sys.stdout.isatty() else ()
    print_rows(rows, names, first=first, more=more)
    if any(is_in_nats(name) for name in names):
        print_styled(("Losses and their terms are in nats per item.", ""))
    if counted and rows[0].get(TYPES_ITEMS):
        when = COUNTED_WHEN.get(str(rows[0].get(TYPES_FROM)), "")
        print_styled((f"Types of latents were counted over {rows[0][TYPES_ITEMS]:,} items{when}.", ""))
    if any("pruned_from" in row for row in rows):
        print_styled(("Pruned runs were not trained and have no loss; `vaescope diagnose ID` measures them.", ""))


def already_trained(reused: int, runs: int) -> str:
    """How many runs were trained before, as a sentence."""
    if runs == 1:
        return "This run was already trained; nothing was trained again."
    some = f"All {runs} runs were" if reused == runs else f"{reused} of {runs} runs {'was' if reused == 1 else 'were'}"
    rest = "nothing was" if reused == runs else "they were not"
    return f"{some} already trained; {'it was not' if reused == 1 else rest} trained again."


def is_in_nats(name: str) -> bool:
    """Whether a column of runs is a loss or one of its terms."""
    return name.startswith(("train_", "test_")) and not name.endswith("gradient_norm")


def print_settings(title: str, values: Mapping[str, object]) -> None:
    """Print settings and results of one run, a line each, with units."""
    print_table(
        ["", title],
        [
            [name, f"{text(value)} nats" if is_in_nats(name) and isinstance(value, float) else value]
            for name, value in values.items()
        ],
    )


def measured_names(rows: Sequence[Row], folder: Path) -> set[str]:
    """The columns that hold measurements."""
    from vaescope.runs.rows import measured_values

    return {name for row in rows for name in measured_values(folder / str(row["id"]))}


def is_outcome(name: str, measured: set[str]) -> bool:
    """Whether a column holds a result; other columns hold settings."""
    return (
        name in measured
        or name in ("status", "step", *VARIABLE_TYPES, *COUNTED)
        or name.startswith(("train_", "test_"))
    )


def varies(rows: Sequence[Row], name: str) -> bool:
    """Whether a column has more than one value."""
    return len({str(row.get(name)) for row in rows}) > 1


def _by_importance(rows: Sequence[Row], names: Sequence[str], measured: set[str]) -> list[str]:
    varying = [name for name in names if varies(rows, name)]
    groups = [
        ["id"],
        [name for name in varying if not is_outcome(name, measured)],
        [name for name in ("test_loss", *VARIABLE_TYPES) if name in names],
        [name for name in names if name in measured],
        [name for name in PRIORITY_COLUMNS if name in names],
        [name for name in varying if is_outcome(name, measured)],
        names,
    ]
    return list(dict.fromkeys(name for group in groups for name in group))


def runs_option(folder: str) -> str:
    """The option of a suggested command that names the folder of runs; empty for the default folder."""
    from vaescope.runs.store import DEFAULT_FOLDER

    return "" if folder == DEFAULT_FOLDER else f" --runs {shlex.quote(folder)}"


def check_file(path: str | None, *, page: bool = False) -> None:
    """Raise an error if a requested file cannot be written, or if a page would have the ending of another format."""
    if path is not None and page:
        check_page(Path(path))
    if path is not None:
        check_writable(Path(path))


def write_csv(rows: Sequence[Mapping[str, object]], names: Sequence[str], file: Path) -> None:
    """Write the named columns of the rows to a CSV file."""
    write_text(file, csv_text(rows, names))
