"""Reading untrusted files: archives of arrays and tables of numbers; what a parser raises becomes a `DataError`."""

from __future__ import annotations

import csv
import lzma
import stat
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

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
"""What the parsers of numpy, Pillow, zipfile and csv raise for bytes that they do not expect."""
MAX_REASON = 200  # characters of a parser's message; numpy quotes whole headers


@contextmanager
def parsing(name: object, what: str, *others: type[Exception]) -> Iterator[None]:
    """Turn what a parser raises inside the block into a `DataError`.

    Args:
        name: What the error calls the content.
        what: What it says that the content must be.
        others: Errors that this parser raises in addition to `PARSER_ERRORS`.
    """
    errors = (*PARSER_ERRORS, *others)
    try:
        yield
    except VaescopeError:
        raise
    except errors as error:
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
        lines = islice((line for line in file if line.strip()), 1 if header else 0, None)
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
