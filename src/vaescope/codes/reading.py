"""Reading archives of arrays and tables of numbers; errors of readers become a `DataError` that names the file."""

from __future__ import annotations

import csv
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import numpy as np
from jaxtyping import Float
from numpy.lib.npyio import NpzFile

from vaescope.errors import DataError


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn errors of readers inside the block into a `DataError` that says that `path` must be `what`."""
    try:
        yield
    except DataError:
        raise
    except (ValueError, EOFError, OSError, csv.Error, zipfile.BadZipFile, zlib.error) as error:
        reason = str(error).rstrip(".") or type(error).__name__
        raise DataError(
            f"{path} must be {what}, whole and without pickled objects; reading it failed: {reason}. "
            "Save or copy it again."
        ) from error


@contextmanager
def numpy_archive(path: Path) -> Iterator[NpzFile]:
    """The arrays of an .npz file by name; pickled arrays are refused on access."""
    with reading(path, "an .npz archive of arrays"):
        # Checked first, because the error of numpy for other files is about pickles.
        if not zipfile.is_zipfile(path):
            raise ValueError("it is not a whole zip archive")
        with np.load(path, allow_pickle=False) as archive:
            yield archive


def read_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The line number and the cells of each line that is not blank."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=_separator(path))
        for cells in reader:
            if len(cells) > 1 or "".join(cells).strip():
                yield reader.line_num, [cell.strip() for cell in cells]


def read_numbers(
    path: Path,
    *,
    header: bool,
    columns: Sequence[int] | None = None,
    text_column: int | None = None,
    advice: str = "Correct it.",
) -> tuple[Float[np.ndarray, "items columns"], list[str]]:
    """Read columns of numbers, and optionally one column of text.

    Args:
        path: A file with at least one line of data.
        header: Whether the first line holds names.
        columns: The positions of the columns to read (default: all); the cells of other columns may hold anything.
        text_column: A column whose distinct texts are numbered in order of appearance.
        advice: What a user should do about a cell that is not a number.

    Returns:
        The numbers, and the distinct texts of `text_column`.
    """
    texts: dict[str, int] = {}
    converters: dict[int | str, Callable[[str], int]] | None = None
    if text_column is not None:
        converters = {text_column: lambda cell: texts.setdefault(cell.strip(), len(texts))}
    if columns is not None:  # numpy does not compare the lengths of lines of which it reads some columns only
        _check_cells(path, header, columns, text_column, advice)
    with path.open(encoding="utf-8-sig") as file:
        lines = islice((line for line in file if line.strip()), int(header), None)
        try:
            numbers = np.loadtxt(
                lines,
                delimiter=_separator(path),
                converters=converters,
                usecols=columns,
                encoding="utf-8",
                quotechar='"',
                comments=None,
                ndmin=2,
            )
        except ValueError:
            _check_cells(path, header, columns, text_column, advice)
            raise
    return numbers, list(texts)


def _check_cells(path: Path, header: bool, columns: Sequence[int] | None, text_column: int | None, advice: str) -> None:
    """Raise an error for the first line with another number of cells, or the first cell that is not a number."""
    numeric = None if columns is None else set(columns)
    first: list[str] | None = None
    for line, cells in read_lines(path):
        is_header, first = first is None and header, first or cells
        if len(cells) != len(first):
            raise DataError(
                f"{path}: every line must have {len(first)} cells, as the first has, but line {line} has "
                f"{len(cells)}. Complete the line or remove it."
            )
        for position, cell in enumerate(() if is_header else cells):
            read = position in numeric if numeric is not None else position != text_column
            if read and not is_number(cell):
                name = f" ({first[position]})" if header else ""
                raise DataError(
                    f"{path}: every cell must be a number, but line {line}, column {position + 1}{name} is "
                    f"{cell!r}. {advice}"
                )


def is_number(cell: str) -> bool:
    """Whether a cell holds a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _separator(path: Path) -> str:
    with path.open(encoding="utf-8-sig") as file:
        line = next((line for line in file if line.strip()), "")
    return next((separator for separator in "\t;" if separator in line), ",")
