"""Reading untrusted files: archives of arrays and tables of numbers; errors of parsers become a `DataError`."""

from __future__ import annotations

import csv
import lzma
import math
import stat
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Float
from numpy.lib.npyio import NpzFile

from vaescope.errors import DataError, VaescopeError

PARSER_ERRORS: tuple[type[Exception], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    csv.Error,
    lzma.LZMAError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Errors of the parsers of numpy, Pillow, zipfile and csv for unexpected bytes."""
MISSING = frozenset({"", "na", "n/a", "<na>", "nan", "null"})  # cells without a value, in small letters
MAX_REASON = 200  # characters of a parser's message; numpy quotes whole headers

Converters: TypeAlias = dict[int | str, Callable[[str], float]]
"""What reads the cells of a column, by its position."""


@contextmanager
def parsing(name: object, what: str, *others: type[Exception]) -> Iterator[None]:
    """Turn errors of a parser inside the block into a `DataError`.

    Args:
        name: The name of the content in the message.
        what: What the content must be, for the message.
        others: Errors that this parser raises in addition to `PARSER_ERRORS`.
    """
    errors = (*PARSER_ERRORS, *others)
    try:
        yield
    except VaescopeError:
        raise
    except errors as error:
        if isinstance(error, FileNotFoundError) and error.filename:
            raise DataError(f"File not found: {error.filename}. Check the path.") from error
        reason, advice = " ".join(str(error).split()).rstrip(".") or type(error).__name__, "Save or copy it again."
        if isinstance(error, OSError) and error.strerror and error.filename:
            reason, advice = f"{error.strerror} ({error.filename})", "Check the path and its permissions."
        raise DataError(f"{name} must be {what}; reading it failed: {reason[:MAX_REASON]}. {advice}") from error


@contextmanager
def reading(path: Path, what: str, *others: type[Exception]) -> Iterator[None]:
    """`parsing` for a regular file or a folder; a pipe or a device is refused, because reading it may never end."""
    with parsing(path, what, *others):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise DataError(
                f"{path} must be {what}, but it is a pipe, a socket or a device. Save the data to a file first."
            )
        yield


@contextmanager
def numpy_archive(path: Path) -> Iterator[NpzFile]:
    """The arrays of an .npz file by name; pickled arrays are refused on access."""
    with reading(path, "a whole .npz archive of arrays, none of them pickled"):
        # Checked first, because the error of numpy for other files is about pickles.
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
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
    text_columns: Collection[int] = (),
    ignored: Collection[int] = (),
    missing: bool = False,
    advice: str = "Correct it.",
) -> tuple[Float[np.ndarray, "items columns"], dict[int, list[str]]]:
    """Read columns of numbers, and optionally columns of text.

    Args:
        path: A file with at least one line of data.
        header: Whether the first line holds names.
        columns: The positions of the columns to read (default: all); the cells of other columns may hold anything.
        text_columns: Columns whose distinct texts are numbered in order of appearance.
        ignored: Columns whose cells may hold anything; they are read as zeros.
        missing: Whether cells without a value, such as an empty one or NA, are read as NaN.
        advice: What a user should do about a cell that is not a number; COLUMN in it becomes the name of the column.

    Returns:
        The numbers, and the distinct texts of each of `text_columns`.
    """
    if columns is not None:  # numpy does not compare the lengths of lines if it reads only some columns
        _check_cells(path, header, columns, (), missing, advice)
    texts, converters = _converters(text_columns, ignored)
    try:
        return _load(path, header, columns, converters), texts
    except ValueError:
        width = _check_cells(path, header, columns, {*text_columns, *ignored}, missing, advice)
        if not missing:
            raise
    # Again, because a function for every cell takes several times as long.
    texts, converters = _converters(text_columns, ignored)
    converters = {**dict.fromkeys(range(width), _number_or_nan), **converters}
    return _load(path, header, columns, converters), texts


def _converters(text_columns: Collection[int], ignored: Collection[int]) -> tuple[dict[int, list[str]], Converters]:
    """The lists to which the distinct texts are appended, and what reads the cells of columns without numbers."""
    texts: dict[int, list[str]] = {column: [] for column in text_columns}

    def numbering(found: list[str]) -> Callable[[str], float]:
        numbers: dict[str, int] = {}

        def number(cell: str) -> float:
            text = cell.strip()
            if text not in numbers:
                numbers[text] = len(found)
                found.append(text)
            return numbers[text]

        return number

    converters: Converters = {column: numbering(found) for column, found in texts.items()}
    return texts, converters | dict.fromkeys(ignored, lambda cell: 0.0)


def _load(
    path: Path, header: bool, columns: Sequence[int] | None, converters: Converters
) -> Float[np.ndarray, "items columns"]:
    with path.open(encoding="utf-8-sig") as file:
        lines = islice((line for line in file if line.strip()), 1 if header else 0, None)
        return np.loadtxt(
            lines,
            delimiter=_separator(path),
            converters=converters or None,
            usecols=columns,
            encoding="utf-8",
            quotechar='"',
            comments=None,
            ndmin=2,
        )


def _check_cells(
    path: Path, header: bool, columns: Sequence[int] | None, others: Collection[int], missing: bool, advice: str
) -> int:
    """The number of cells in a line; raises an error for the first line with another, or for a cell of no number."""
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
            read = position in numeric if numeric is not None else position not in others
            if read and not is_number(cell) and not (missing and is_missing(cell)):
                name = f" ({first[position]})" if header else ""
                column = first[position] if header else str(position + 1)
                raise DataError(
                    f"{path}: every cell must be a number, but line {line}, column {position + 1}{name} is "
                    f"{cell!r}. {advice.replace('COLUMN', column)}"
                )
    return len(first or ())


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is no value."""
    return cell.strip().casefold() in MISSING


def _number_or_nan(cell: str) -> float:
    return math.nan if is_missing(cell) else float(cell)


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
