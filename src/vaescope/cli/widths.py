"""Which columns of a table fit a terminal, and how wide each of them is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LONGEST = 24  # letters of a word that stays whole; longer ones, such as paths, go on in the next line
RULED, PLAIN = 3, 1  # characters that a column takes beside its content, with lines between columns and without


@dataclass(frozen=True)
class Layout:
    """The numbers of the columns that are shown, how wide each is, and whether there are lines between them."""

    shown: tuple[int, ...]
    widths: tuple[int, ...]
    ruled: bool


def layout(columns: Sequence[Sequence[str]], room: int, order: Sequence[int]) -> Layout:
    """Columns, each a head and its cells, within so many characters: the first in the order that fit.

    No word is cut: a column is as wide as its longest. The lines between columns go before any column does.
    """
    natural = [min(max(1, *map(_width, column)), room) for column in columns]
    least = [min(width, max(1, _longest_word(column)), LONGEST) for width, column in zip(natural, columns, strict=True)]
    everything = RULED * len(columns) + 1
    if sum(least) + everything <= room:
        return Layout(tuple(range(len(columns))), _narrowed(natural, least, room - everything), ruled=True)
    shown: list[int] = []
    for column in order:
        if not shown or sum(least[one] + PLAIN for one in (*shown, column)) - PLAIN <= room:
            shown.append(column)
    shown.sort()
    within = room - PLAIN * (len(shown) - 1)
    widths = _narrowed([natural[one] for one in shown], [least[one] for one in shown], within)
    return Layout(tuple(shown), widths, ruled=False)


def _narrowed(widths: list[int], least: list[int], room: int) -> tuple[int, ...]:
    """The widths, the widest made narrower until all have room."""
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
