"""Tables of numbers as text: .csv and .tsv files, with or without a header and a column of labels."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np

from vaescope.codes.csv_tables import is_number, read_lines, read_numbers
from vaescope.codes.reading import reading
from vaescope.data.arrays import ArrayDataset, from_array
from vaescope.errors import DataError

ADVICE = "Correct it, pass label= if the column contains classes, or header=True if line 1 contains names."


def open_csv(path: Path, *, label: str | int | None = None, header: bool | None = None) -> ArrayDataset:
    """A table of numbers, one item per line, separated by commas, semicolons or tabs.

    Args:
        label: The column of the labels, by name or by number from 1. Words are numbered in alphabetical order.
        header: Whether the first line contains names. Default: True if none of its cells is a number.
    """
    with reading(path, "a table of numbers in UTF-8"):
        first = [cells for _, cells in islice(read_lines(path), 2)]
        if not first:
            raise DataError(f"{path} must contain one line for each item, got an empty file.")
        header = not any(map(is_number, first[0])) if header is None else header
        if header and (len(first) < 2 or len(first[0]) != len(first[1])):
            raise DataError(
                f"{path}: the header must have one name for each column, got {len(first[0])} names and "
                f"{len(first[1]) if len(first) > 1 else 'no'} columns. Correct or remove the header."
            )
        column = None if label is None else _column(path, label, first[0])
        table, words = read_numbers(path, header=header, text_column=column, advice=ADVICE)
    if column is None:
        return from_array(table, str(path))
    texts = np.array(words)[table[:, column].astype(np.int64)]
    numbered = all(map(is_number, words))
    labels = texts.astype(np.float64) if numbered else np.unique(texts, return_inverse=True)[1]
    return from_array(np.delete(table, column, axis=1), str(path), labels=labels)


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
