"""Which columns of a table fit the terminal, and how wide each is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_UNBROKEN_WORD = 24  # characters; longer words, such as paths, continue on the next line
RULED_PADDING, PLAIN_PADDING = 3, 1  # characters per column, with and without lines between columns


@dataclass(frozen=True)
class TableLayout:
    """The positions of the visible columns, their widths, and whether lines separate them."""

    shown: tuple[int, ...]
    widths: tuple[int, ...]
    ruled: bool


def layout(columns: Sequence[Sequence[str]], room: int, order: Sequence[int]) -> TableLayout:
    """Choose the columns that fit into `room` characters, by priority.

    A column is at least as wide as its longest word. Lines between columns are dropped before any column is.

    Args:
        columns: Header and cells of each column.
        room: Width of the terminal in characters.
        order: Positions of the columns, the most important first.
    """
    natural = [min(max(1, *map(_width, column)), room) for column in columns]
    words = [min(max(1, _longest_word(column)), MAX_UNBROKEN_WORD) for column in columns]
    least = [min(pair) for pair in zip(natural, words, strict=True)]
    everything = RULED_PADDING * len(columns) + 1
    if sum(least) + everything <= room:
        return TableLayout(tuple(range(len(columns))), _narrowed(natural, least, room - everything), ruled=True)
    shown: list[int] = []
    for column in order:
        if not shown or sum(least[one] + PLAIN_PADDING for one in (*shown, column)) - PLAIN_PADDING <= room:
            shown.append(column)
    shown.sort()
    within = room - PLAIN_PADDING * (len(shown) - 1)
    widths = _narrowed([natural[one] for one in shown], [least[one] for one in shown], within)
    return TableLayout(tuple(shown), widths, ruled=False)


def _narrowed(widths: list[int], least: list[int], room: int) -> tuple[int, ...]:
    """Reduce the widest columns until all fit."""
    found = list(widths)
    while sum(found) > room:
        spare = [width if width > bound else 0 for width, bound in zip(found, least, strict=True)]
        if not any(spare):
            break
        found[spare.index(max(spare))] -= 1
    return tuple(found)


def _width(text: str) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, text.splitlines()), default=0)


def _longest_word(column: Sequence[str]) -> int:
    return max((_width(word) for text in column for word in text.split()), default=0)
