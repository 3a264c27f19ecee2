"""Labels and factors that users add to items: arrays, tables, files of tables, and patterns of file names."""

from __future__ import annotations

import os
import re
import warnings
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np
from torch import Tensor

from vaescope.codes.arrays import ArrayLike
from vaescope.data.columns import Table, kind_of, missing_in, read_table, table_of, without_index, words_at
from vaescope.data.labels import Labels, column_codes, column_labels
from vaescope.data.sources import passing
from vaescope.errors import DataError, DataWarning

FILE_COLUMNS = ("file", "filename", "file_name", "image", "name", "path")
LABEL_COLUMNS = ("label", "labels")
PATTERN_EXAMPLE = "shape{shape}_scale{scale}_{angle}.png"
PLACEHOLDER = re.compile(r"\{(\w+)\}")

Annotation = ArrayLike | str | os.PathLike[str]
"""An array, a data frame, the path of a table, or a pattern of file names."""


@dataclass(frozen=True)
class Files:
    """The folder and the files of items that are files: their paths inside the folder, in the order of the items."""

    folder: Path
    paths: tuple[PurePosixPath, ...]


@dataclass(frozen=True)
class Annotations:
    """Labels and factors in the order of the items, and the names of the factors."""

    labels: ArrayLike | Labels | None = None
    factors: ArrayLike | None = None
    factor_names: tuple[str, ...] | None = None


def annotate(
    owner: str,
    labels: Annotation | Labels | None = None,
    factors: Annotation | None = None,
    factor_names: tuple[str, ...] | None = None,
    files: Files | None = None,
) -> Annotations:
    """Labels and factors of items, from whatever they were given as; arrays are returned unchanged.

    Args:
        owner: The name of the data set in error messages.
        labels: A table with one column, or with a column called label.
        factors: A table with one column for each factor; a column called label holds the labels.
        factor_names: Names of the factors. Default: those of the columns.
        files: The files of the items: tables may have a column of file names, and patterns match them.
    """
    label_table = None if isinstance(labels, Labels) else _table(labels, owner, "labels", files)
    factor_table = _table(factors, owner, "factors", files)
    if factor_table is not None:
        columns = _in_order(factor_table, owner, "factors", files)
        own_label = next((column for column in columns if column.casefold() in LABEL_COLUMNS), None)
        if own_label is not None and labels is None:
            labels = column_labels(columns[own_label], owner, own_label)
        codes = {name: column_codes(column, owner, name) for name, column in columns.items() if name != own_label}
        factors = np.stack(list(codes.values()), axis=1) if codes else None
        factor_names = (factor_names or tuple(codes)) if codes else None
    if label_table is not None:
        columns = _in_order(label_table, owner, "labels", files)
        named = [column for column in columns if column.casefold() in LABEL_COLUMNS] or list(columns)
        if len(named) != 1:
            raise DataError(
                f"{owner}: a table of labels must have one column for them, or one called label, got "
                f"{', '.join(columns) or 'no column'}. Drop or rename the others."
            )
        labels = column_labels(columns[named[0]], owner, named[0])
    assert not isinstance(factors, str | os.PathLike)
    assert not isinstance(labels, str | os.PathLike)
    return Annotations(labels, factors, factor_names)


def annotate_folder(
    owner: str,
    files: Files,
    classes: Labels | None,
    labels: Annotation | Literal[False] | None,
    factors: Annotation | Literal[False] | None,
) -> Annotations:
    """Labels and factors of files.

    Args:
        owner: The name of the data set in error messages.
        files: The files of the items.
        classes: The subfolder of each file.
        labels: As in `annotate`, or False for none. Default: those in labels.csv in the folder, then those of a table
            or pattern of factors, then `classes`.
        factors: As in `annotate`, or False for none. Default: those in factors.csv in the folder.
    """
    found = annotate(
        owner,
        _given_or_there(labels, "labels", owner, files),
        _given_or_there(factors, "factors", owner, files),
        files=files,
    )
    if labels is False:
        return replace(found, labels=None)
    return replace(found, labels=classes) if found.labels is None else found


def _given_or_there(
    given: Annotation | Literal[False] | None, what: str, owner: str, files: Files
) -> Annotation | None:
    """What was given, or the path of a file in the folder of the items that is called like the option."""
    if given is not None:
        return None if given is False else given
    path = files.folder / f"{what}.csv"
    if not path.is_file():
        return None
    warnings.warn(
        f"{owner}: the {what} are those in {path.name} in this folder. Pass {passing(what, False)} to leave them out.",
        DataWarning,
        stacklevel=2,
    )
    return path


def _table(given: Annotation | None, owner: str, what: str, files: Files | None) -> Table | None:
    """The table that labels or factors were given as; None if they are an array."""
    if isinstance(given, str) and files is not None and PLACEHOLDER.search(given):
        return _matched(given, owner, files)
    if isinstance(given, str | os.PathLike):
        path = Path(os.path.expanduser(given))
        if files is not None and not path.is_file():
            path = files.folder / path
        if not path.is_file():
            other = "" if files is None else f", or a pattern of file names such as {PATTERN_EXAMPLE!r}"
            raise DataError(
                f"{owner}: {what} must be an array, a data frame or the path of a .csv or .parquet file{other}, but "
                f"there is no file {str(given)!r}. Correct the path."
            )
        return read_table(path)
    if given is None or isinstance(given, np.ndarray | Tensor | list | tuple | range):
        return None
    return table_of(given)


def _matched(pattern: str, owner: str, files: Files) -> Table:
    """One column for each name in braces, with the text in its place in each file name."""
    pieces = PLACEHOLDER.split(pattern)  # text, name, text, name, ..., text
    names = pieces[1::2]
    if len(set(names)) < len(names):
        raise DataError(f"{owner}: a pattern must contain each name in braces once, got {pattern!r}.")
    expression = re.compile("([^/]+?)".join(map(re.escape, pieces[0::2])))
    rows = []
    for path in files.paths:
        whole = path if "/" in pattern else PurePosixPath(path.name)
        match = expression.fullmatch(str(whole)) or expression.fullmatch(str(whole.with_suffix("")))
        if match is None:
            raise DataError(
                f"{owner}: every file name must match the pattern {pattern!r}, but {str(path)!r} does not. Correct the "
                "pattern, or rename or remove the file."
            )
        rows.append(match.groups())
    places = np.arange(len(rows))
    return Table({name: words_at(texts, places) for name, texts in zip(names, zip(*rows, strict=True), strict=True)})


def _in_order(table: Table, owner: str, what: str, files: Files | None) -> dict[str, np.ndarray]:
    """The columns in the order of the files, without the column of file names and an index."""
    columns = {name: table.columns[name] for name in without_index(table, f"{owner}, {what}", list(table.columns))}
    key = next((name for name in columns if name.casefold() in FILE_COLUMNS), None)
    if files is None or key is None:
        return columns
    order = _rows_of(files, columns.pop(key), key, owner, what)
    return {name: column[order] for name, column in columns.items()}


def _rows_of(files: Files, keys: np.ndarray, key: str, owner: str, what: str) -> list[int]:
    """The row of each file in a table that names the files in the column `key`, with or without folder and suffix."""
    if missing_in(keys).any() or kind_of(keys) not in ("words", "numbers"):
        raise DataError(f"{owner}: the column {key!r} of the {what} must name a file in every row. Fill it in.")
    rows: dict[str, int] = {}
    for row, entry in enumerate(keys.tolist()):
        text = entry if isinstance(entry, str) else f"{entry:.0f}"
        if text in rows:
            raise DataError(
                f"{owner}: the column {key!r} of the {what} must name each file once, got {text!r} twice. Remove one "
                "row, or rename the column if it does not contain file names."
            )
        rows[text] = row
    for text, row in list(rows.items()):
        rows.setdefault(PurePosixPath(text).name, row)
    found = []
    for path in files.paths:
        forms = (str(path), str(path.with_suffix("")), path.name, path.stem, path.stem.lstrip("0") or "0")
        match = next((rows[form] for form in forms if form in rows), None)
        if match is None:
            raise DataError(
                f"{owner}: the {what} must have a row for every image, but the column {key!r} does not contain "
                f"{str(path)!r}. Add the row, or remove the image."
            )
        found.append(match)
    return found
