"""Tables of numbers as text: .csv and .tsv files, with or without a header and a column of labels."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from vaescope.codes.reading import reading
from vaescope.data.arrays import ArrayDataset, from_array
from vaescope.errors import DataError


def open_csv(path: Path, *, label: str | int | None = None, header: bool | None = None) -> ArrayDataset:
    """A table of numbers, one item per line, separated by commas, semicolons or tabs.

    Args:
        label: The column of the labels, by name or by number from 1. Words are numbered in alphabetical order.
        header: Whether the first line contains names. Default: True if none of its cells is a number.
    """
    with reading(path, "a table of numbers in UTF-8"):
        first = [cells for _, cells in islice(_lines(path), 2)]
        if not first:
            raise DataError(f"{path} must contain one line for each item, got an empty file.")
        header = not any(map(_is_number, first[0])) if header is None else header
        if header and (len(first) < 2 or len(first[0]) != len(first[1])):
            raise DataError(
                f"{path}: the header must have one name for each column, got {len(first[0])} names and "
                f"{len(first[1]) if len(first) > 1 else 'no'} columns. Correct or remove the header."
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
    """The number and the cells of each line that is not blank."""
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
    """The position of the label column, given by its name in the first line or by its number from 1."""
    if label in names:
        return names.index(str(label))
    if str(label).isdecimal() and 1 <= int(label) <= len(names):
        return int(label) - 1
    raise DataError(
        f"{path}: label must be the number of a column, 1 to {len(names)}, or its name in the first line "
        f"({', '.join(names[:8])}{', ...' if len(names) > 8 else ''}), got {label!r}."
    )


def _table(path: Path, header: bool, column: int | None) -> tuple[np.ndarray, list[str]]:
    """The numbers, with the labels replaced by positions in the list of distinct labels, which is returned too."""
    words: dict[str, int] = {}
    converters: dict[int | str, Callable[[str], int]] = {}
    if column is not None:
        converters[column] = lambda cell: words.setdefault(cell.strip(), len(words))
    with path.open(encoding="utf-8-sig") as file:
        lines = islice((line for line in file if line.strip()), int(header), None)
        try:
            table = np.loadtxt(
                lines,
                delimiter=_separator(path),
                quotechar='"',
                comments=None,
                converters=converters or None,
                encoding="utf-8",
                ndmin=2,
            )
        except ValueError as error:
            bad = _bad_cell(path, header, column)
            if bad is None:
                raise
            raise bad from error
    return table, list(words)


def _bad_cell(path: Path, header: bool, column: int | None) -> DataError | None:
    """The error for the first cell that is not a number, or the first line with another number of cells."""
    width = None
    for line, cells in islice(_lines(path), int(header), None):
        width = width or len(cells)
        if len(cells) != width:
            return DataError(
                f"{path}: every line must have {width} cells, as the first has, but line {line} has "
                f"{len(cells)}. Complete the line or remove it."
            )
        for position, cell in enumerate(cells):
            if position != column and not _is_number(cell):
                return DataError(
                    f"{path}: every cell must be a number, but line {line}, column {position + 1} is {cell!r}. "
                    "Correct it, pass label= if the column contains classes, or header=True if line 1 contains names."
                )
    return None
