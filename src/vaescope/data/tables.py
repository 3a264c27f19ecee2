"""Tables of numbers as text: .csv and .tsv files, with a header or without, with a column of labels or without."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from vaescope.codes.reading import reading
from vaescope.data.arrays import ArrayDataset, from_array
from vaescope.errors import DataError


def open_csv(path: Path, *, label: str | int | None = None, header: bool | None = None) -> ArrayDataset:
    """A table of numbers, one item a line, separated by commas, semicolons or tabs.

    The first line is a header if `header` says so or if none of its cells is a number. `label` picks the
    column of the labels by name or by number, counted from 1; words there become 0, 1, 2, ... by alphabet.
    """
    with reading(path, "a table of numbers in UTF-8"):
        first = [cells for _, cells in islice(_lines(path), 2)]
        if not first:
            raise DataError(f"{path} must hold a line for each item, got an empty file. Add the numbers.")
        header = not any(map(_is_number, first[0])) if header is None else header
        if header and (len(first) < 2 or len(first[0]) != len(first[1])):
            raise DataError(
                f"{path}: a header must be followed by lines of as many cells, got {len(first[0])} names, "
                f"then {len(first[1]) if len(first) > 1 else 'no'} cells. Mend the header or remove it."
            )
        column = None if label is None else _column(path, label, first[0])
        table, words = _table(path, header, column)
    if column is None:
        return from_array(table, str(path))
    texts = np.array(words)[table[:, column].astype(np.int64)]
    numbered = all(map(_is_number, words))
    labels = texts.astype(np.float64) if numbered else np.unique(texts, return_inverse=True)[1]
    return from_array(np.delete(table, column, axis=1), str(path), labels=labels)


def _separator(path: Path) -> str:
    with path.open(encoding="utf-8-sig") as file:
        line = next((line for line in file if line.strip()), "")
    return next((separator for separator in "\t;" if separator in line), ",")


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The number and the cells of each line of a table that is not blank."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=_separator(path))
        for cells in reader:
            if len(cells) > 1 or "".join(cells).strip():
                yield reader.line_num, cells


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _column(path: Path, label: str | int, names: list[str]) -> int:
    """The position of the column of labels, given by its name in the first line or its number from 1."""
    if label in names:
        return names.index(str(label))
    if str(label).isdecimal() and 1 <= int(label) <= len(names):
        return int(label) - 1
    raise DataError(
        f"{path}: label must be a column, by number from 1 to {len(names)} or by name in the first line "
        f"({', '.join(names[:8])}{', ...' if len(names) > 8 else ''}); got {label!r}."
    )


def _table(path: Path, header: bool, column: int | None) -> tuple[np.ndarray, list[str]]:
    """The numbers, with the column of labels replaced by positions in the list of its distinct texts."""
    words: dict[str, int] = {}
    converters: dict[int | str, Callable[[str], int]] = {}
    if column is not None:
        converters[column] = lambda cell: words.setdefault(cell.strip(), len(words))
    with path.open(encoding="utf-8-sig") as file:
        lines = islice((line for line in file if line.strip()), int(header), None)
        form: dict[str, Any] = {"delimiter": _separator(path), "quotechar": '"', "comments": None, "ndmin": 2}
        try:
            return np.loadtxt(lines, converters=converters or None, encoding="utf-8", **form), list(words)
        except ValueError as error:
            bad = _bad_cell(path, header, column)
            if bad is None:
                raise
            raise bad from error


def _bad_cell(path: Path, header: bool, column: int | None) -> DataError | None:
    """The error for the first cell that is no number or the first line of another length, if there is one."""
    width = None
    for line, cells in islice(_lines(path), int(header), None):
        width = width or len(cells)
        if len(cells) != width:
            return DataError(
                f"{path}: every line must have as many cells as the first, {width}; line {line} has "
                f"{len(cells)}. Complete the line or remove it."
            )
        for position, cell in enumerate(cells):
            if position != column and not _is_number(cell):
                return DataError(
                    f"{path}: every cell must be a number, line {line}, column {position + 1} is {cell!r}. "
                    "Mend it, pass label= if its column holds classes, or header=True if line 1 holds names."
                )
    return None
