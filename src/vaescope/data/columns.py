"""Tables of any library or file as named columns of numpy."""

from __future__ import annotations

import datetime
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Bool

from vaescope.codes.reading import is_missing, is_number, read_lines, read_numbers, reading
from vaescope.data.sources import option_name
from vaescope.errors import DataError, DataWarning, did_you_mean, quoted

if TYPE_CHECKING:
    import pyarrow as pa

Kind: TypeAlias = Literal["numbers", "words", "dates", "cells", "others"]
DATES = (datetime.date, datetime.time, datetime.timedelta)
CELLS = (bytes, dict, list, tuple, np.ndarray)  # images and arrays
IMAGE_KEYS = {"bytes", "path"}  # of images as the library datasets writes them
PARQUET_SUFFIX = ".parquet"
TABLE_SUFFIXES = (".csv", ".tsv", PARQUET_SUFFIX)
INDEX_NAMES = ("", "Unnamed: 0", "__index_level_0__")  # names of the index in tables that pandas, polars and R wrote


@dataclass(frozen=True)
class Table:
    """Columns by name, in order.

    Attributes:
        columns: Numbers with NaN for missing values, or objects (strings, dates, arrays, bytes) with None.
        class_names: For columns of class numbers: the name of each class.
    """

    columns: dict[str, np.ndarray]
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0


@runtime_checkable
class _HuggingFaceDataset(Protocol):
    """A `Dataset` of the library datasets, or its `DatasetDict` of several."""

    column_names: Sequence[str] | Mapping[str, Sequence[str]]

    def __len__(self) -> int:
        """The number of rows."""

    def with_format(self, type: str) -> Sequence[pa.Table]:
        """The same rows, read as tables of pyarrow."""


def table_of(source: object) -> Table | None:
    """The columns of a data frame of pandas, polars, pyarrow or a similar library; None for other objects."""
    if type(source).__module__.partition(".")[0] == "datasets" and isinstance(source, _HuggingFaceDataset):
        if isinstance(source.column_names, Mapping):
            parts = ", ".join(map(repr, source.column_names))
            raise DataError(f"data must be one table, got a {type(source).__name__} of {parts}. Pass one of them.")
        return _from_arrow(source.with_format("arrow")[:])
    import narwhals.stable.v2 as nw

    try:
        frame = nw.from_native(source, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise DataError(
            "the columns of a data frame must have different names. Rename those that share one."
        ) from error
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, nw.DataFrame):
        return None
    columns = {}
    for series in frame.iter_columns():
        # Structs of some libraries become arrays without the names of their fields.
        values = _objects(series.to_list()) if isinstance(series.dtype, nw.Struct) else series.to_numpy()
        columns[str(series.name)] = _plain(values, series.is_null().to_numpy())
    return Table(columns)


def read_table(path: Path) -> Table:
    """All columns of a CSV or parquet file; the first line of a CSV holds the names."""
    if path.suffix.lower() == PARQUET_SUFFIX:
        return read_parquet([path])
    with reading(path, "a table in UTF-8 whose first line holds the names of the columns"):
        first = [cells for _, cells in islice(read_lines(path), 2)]
        check_lines(path, first, header=True)
        names = column_names(first[0])
        numbers, texts = read_numbers(path, header=True, text_columns=range(len(names)))
    return Table({name: words_at(texts[place], numbers[:, place]) for place, name in enumerate(names)})


def read_parquet(paths: Sequence[Path]) -> Table:
    """The columns of parquet files, one below the other."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise DataError(
            f"{paths[0]}: parquet files need the package pyarrow, which is not installed. "
            "Run: pip install 'vaescope[tables]'"
        ) from error
    parts = []
    for path in paths:
        with reading(path, "a whole parquet file", pa.ArrowException):
            parts.append(pq.read_table(path))
    with reading(paths[0].parent, "a folder of parquet files with the same columns", pa.ArrowException):
        return _from_arrow(pa.concat_tables(parts))


def check_lines(path: Path, first: Sequence[Sequence[str]], header: bool) -> None:
    """Raise an error unless there is an item in the first two lines, of which the first may be a header."""
    if not first:
        raise DataError(f"{path} must contain one line for each item, got an empty file.")
    if header and (len(first) < 2 or len(first[0]) != len(first[1])):
        raise DataError(
            f"{path}: the header must have one name for each column, got {len(first[0])} names and "
            f"{len(first[1]) if len(first) > 1 else 'no'} columns. Correct or remove the header."
        )


def column_names(header: Sequence[str]) -> list[str]:
    """The names in a header, each once: unnamed columns are called as pandas calls them."""
    names: list[str] = []
    for place, name in enumerate(header):
        name = name or f"Unnamed: {place}"
        names.append(f"{name} (column {place + 1})" if name in names else name)
    return names


def words_at(words: Sequence[str], places: np.ndarray) -> np.ndarray:
    """The word at each place as a column: numbers if all words are numbers."""
    known = [word for word in words if not is_missing(word)]
    if all(map(is_number, known)):
        return np.array([float("nan") if is_missing(word) else float(word) for word in words])[places.astype(np.int64)]
    return _objects([None if is_missing(word) else word for word in words])[places.astype(np.int64)]


def find_column(names: Sequence[str], wanted: object, owner: str, option: str) -> str:
    """The name of the column that an option gives by its name, or by its number from 1."""
    if str(wanted) in names:
        return str(wanted)
    if str(wanted).isdecimal() and 1 <= int(str(wanted)) <= len(names):
        return names[int(str(wanted)) - 1]
    raise DataError(
        f"{owner}: {option_name(option)} must be the name of a column ({', '.join(names[:8])}"
        f"{', ...' if len(names) > 8 else ''}) or its number, 1 to {len(names)}, got {wanted!r}."
        f"{did_you_mean(str(wanted), names)}"
    )


def without_index(table: Table, owner: str, names: Sequence[str]) -> list[str]:
    """These columns without the row numbers or row names that another program wrote under no name."""
    found = next((name for name in names if name in INDEX_NAMES and _is_index(table.columns[name])), None)
    if found is not None:
        values = table.columns[found][:2].tolist()
        first = ", ".join(f"{entry:g}" if isinstance(entry, float) else str(entry) for entry in values)
        warnings.warn(
            f"{owner}: the unnamed column ({first}, ...) is an index and is left out. Give it a name to keep it.",
            DataWarning,
            stacklevel=2,
        )
    return [name for name in names if name != found]


def _is_index(values: np.ndarray) -> bool:
    """Whether the values are words or whole numbers that all differ."""
    if missing_in(values).any() or kind_of(values) not in ("numbers", "words"):
        return False
    whole = values.dtype == object or bool((values == np.floor(values)).all())
    return whole and len(set(values.tolist())) == len(values)


def kind_of(values: np.ndarray) -> Kind:
    """What a column contains: the kind of its first value; words if any value is one."""
    if values.dtype != object:
        return "dates" if values.dtype.kind in "mM" else "numbers"
    known = [entry for entry in values if entry is not None]
    if any(isinstance(entry, str) for entry in known):
        return "words"
    if isinstance(known[0], dict) and not IMAGE_KEYS & known[0].keys():
        return "others"
    return "dates" if isinstance(known[0], DATES) else "cells" if isinstance(known[0], CELLS) else "others"


def what_is_in(values: np.ndarray) -> str:
    """What a column without numbers contains, for messages."""
    kind = kind_of(values)
    if kind == "dates":
        return "dates or times"
    known = [entry for entry in values if entry is not None]
    words = [entry for entry in known if isinstance(entry, str)]
    if kind == "words" and len(words) == len(known) and all(map(is_number, words)):
        return f"numbers that are stored as text, such as {quoted(words[0])}"
    return f"words such as {quoted(words[0])}" if kind == "words" else f"values of type {type(known[0]).__name__}"


def missing_in(values: np.ndarray) -> Bool[np.ndarray, "items"]:
    """Which values of a column are missing."""
    if values.dtype == object:
        return np.fromiter((entry is None for entry in values), bool, len(values))
    # Only numbers and dates that are not a number differ from themselves.
    return np.asarray(values != values)


def _from_arrow(table: pa.Table) -> Table:
    """The columns of a table of pyarrow, with the names of classes that the library datasets keeps in its schema."""
    found = table_of(table)
    assert found is not None
    metadata: dict[bytes, bytes] = table.schema.metadata or {}
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
        classes = {name: entry for name, entry in features.items() if entry["_type"] == "ClassLabel"}
        names = {name: tuple(map(str, entry["names"])) for name, entry in classes.items()}
    except (ValueError, TypeError, KeyError, AttributeError):  # written by another program
        return found
    return Table(found.columns, names)


def _plain(values: np.ndarray, missing: Bool[np.ndarray, "items"]) -> np.ndarray:
    """The column as numbers with NaN where values are missing, or as objects with None."""
    if values.ndim > 1:  # arrays of one shape
        values = _objects(list(values))
    if values.dtype != object:
        return _objects(values.tolist()) if values.dtype.kind in "UT" else values
    entries = [None if absent else entry for entry, absent in zip(values, missing, strict=True)]
    known = [entry for entry in entries if entry is not None]
    if not all(isinstance(entry, Real | Decimal | np.bool_) for entry in known):
        return _objects(entries)
    numbers = np.array([np.nan if entry is None else entry for entry in entries])
    return numbers.astype(np.float64) if len(known) < len(entries) or numbers.dtype == object else numbers


def _objects(entries: Sequence[object]) -> np.ndarray:
    """An array of objects, also of lists and arrays, which numpy would otherwise join."""
    found = np.empty(len(entries), object)
    found[:] = entries
    return found
