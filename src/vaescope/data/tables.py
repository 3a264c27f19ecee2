"""Data sets from the columns of a table: numbers, or one column of images or arrays, with a label and factors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from vaescope.codes.arrays import ArrayLike
from vaescope.data.annotations import LABEL_COLUMNS
from vaescope.data.arrays import ArrayDataset, from_array
from vaescope.data.columns import (
    INDEX_NAMES,
    TABLE_SUFFIXES,
    Table,
    find_column,
    kind_of,
    missing_in,
    what_is_in,
    without_index,
)
from vaescope.data.dataset import Missing
from vaescope.data.image_sets import read_images
from vaescope.data.images import Size
from vaescope.data.labels import Labels, column_codes, column_labels
from vaescope.data.sources import keyword, option_name, passing, setting
from vaescope.errors import ConfigurationError, DataError, DataWarning, quoted

Filling: TypeAlias = Literal["mean"]
"""Missing values are replaced by the mean of their column."""

MEAN: Filling = "mean"
MASK: Missing = "mask"
WAYS = (MEAN, MASK)

ColumnName = str | int
"""The name of a column, or its number from 1."""


@dataclass(frozen=True)
class Selection:
    """What the columns of a table are.

    Attributes:
        label: The column of the labels.
        factors: The columns of the factors; or factors of another kind, see `from_array`.
        columns: The columns of the items. Default: all others.
        drop: Columns that are left out.
        missing: 'mean' to fill in the mean of a column where values are missing, or 'mask': see `from_array`. Default:
            missing values are an error.
    """

    label: ColumnName | None = None
    factors: ColumnName | Sequence[ColumnName] | ArrayLike | None = None
    columns: ColumnName | Sequence[ColumnName] | None = None
    drop: ColumnName | Sequence[ColumnName] | None = None
    missing: Filling | Missing | None = None

    def __post_init__(self) -> None:
        if self.missing not in (None, *WAYS):
            raise ConfigurationError(
                f"{option_name('missing')} must be {' or '.join(map(repr, WAYS))} (default: missing values are an "
                f"error), got {quoted(self.missing)}."
            )

    def of_any_kind(self, names: Sequence[str], owner: str) -> tuple[set[int], set[int]]:
        """The positions of columns that may contain words, and of those that are left out."""
        label = _found(names, self.label, owner, "label")
        factors = _found(names, self.factors, owner, "factors") if _are_columns(self.factors) else []
        words = {*label, *factors}
        if self.columns is not None:
            dropped = set(names) - words - set(_found(names, self.columns, owner, "columns"))
        else:
            dropped = set(_found(names, self.drop, owner, "drop"))
        unnamed = {name for name in names if name in INDEX_NAMES} - dropped
        return {names.index(name) for name in words | unnamed}, {names.index(name) for name in dropped}


@dataclass(frozen=True)
class _Roles:
    """The columns of the items and of the factors, and the column of the labels."""

    items: list[str]
    factors: list[str]
    label: str | None


def open_table(
    table: Table,
    name: str = "array",
    *,
    label: ColumnName | None = None,
    factors: ColumnName | Sequence[ColumnName] | ArrayLike | None = None,
    columns: ColumnName | Sequence[ColumnName] | None = None,
    drop: ColumnName | Sequence[ColumnName] | None = None,
    missing: Filling | Missing | None = None,
    labels: ArrayLike | None = None,
    factor_names: tuple[str, ...] | None = None,
    size: Size | None = None,
    colour: bool | None = None,
    image: bool | None = None,
    as_given: bool = False,
) -> ArrayDataset:
    """A data set of the columns of a table.

    Args:
        table: The columns of a data frame of pandas, polars, pyarrow or a similar library.
        label, factors, columns, drop, missing: See `Selection`.
        size, colour: For images: as in a folder of images.
        labels, factor_names, image, as_given: As in `from_array`.
    """
    return from_table(
        table,
        name,
        Selection(label, factors, columns, drop, missing),
        labels=labels,
        factor_names=factor_names,
        size=size,
        colour=colour,
        image=image,
        as_given=as_given,
    )


def from_table(
    table: Table,
    name: str,
    selection: Selection,
    *,
    labels: ArrayLike | Labels | None = None,
    factor_names: tuple[str, ...] | None = None,
    size: Size | None = None,
    colour: bool | None = None,
    image: bool | None = None,
    as_given: bool = False,
) -> ArrayDataset:
    """A data set of the selected columns; see `open_table`."""
    if not len(table):
        raise DataError(f"{name}: a table must have a row for each item, got none. Pass one with rows.")
    roles = _roles(table, name, selection)
    factors: ArrayLike | None = None if _are_columns(selection.factors) else selection.factors
    if roles.factors:
        factors = np.stack([column_codes(table.columns[column], name, column) for column in roles.factors], axis=1)
        factor_names = factor_names or tuple(roles.factors)
    if selection.label is not None and labels is not None:
        raise ConfigurationError(f"{name}: labels must come from label or from labels, got both. Leave one out.")
    if roles.label is not None:
        labels = _labels(table, name, roles.label)
    items = [table.columns[column] for column in roles.items]
    if len(items) == 1 and kind_of(items[0]) == "cells":
        rows = _from_cells(items[0], name, roles.items[0], size, colour)
    else:
        rows = _numbers(dict(zip(roles.items, items, strict=True)), name, selection.missing)
    return from_array(
        rows,
        name,
        labels=labels,
        factors=factors,
        factor_names=factor_names,
        image=image,
        as_given=as_given,
        missing=MASK if selection.missing == MASK else None,
    )


def _are_columns(factors: object) -> bool:
    """Whether factors are given as columns of the table, not as an array or as another table."""
    if isinstance(factors, list | tuple):
        return all(isinstance(entry, str | int) for entry in factors)
    is_file = isinstance(factors, str) and Path(factors).suffix.lower() in TABLE_SUFFIXES
    return factors is None or (isinstance(factors, str | int) and not is_file)


def _found(names: Sequence[str], given: object, owner: str, option: str) -> list[str]:
    """The names of the columns that an option gives."""
    entries = given if isinstance(given, list | tuple) else [] if given is None else [given]
    return [find_column(names, entry, owner, option) for entry in entries]


def _roles(table: Table, owner: str, selection: Selection) -> _Roles:
    names = list(table.columns)
    labels = _found(names, selection.label, owner, "label")
    if len(labels) > 1:
        raise ConfigurationError(
            f"{owner}: {option_name('label')} must name one column, got {', '.join(labels)}. Name the others in "
            f"{keyword('factors')}."
        )
    label = next(iter(labels), None)
    factors = _found(names, selection.factors, owner, "factors") if _are_columns(selection.factors) else []
    taken = {*factors, *_found(names, selection.drop, owner, "drop"), *([] if label is None else [label])}
    if selection.columns is not None:
        items = _found(names, selection.columns, owner, "columns")
        twice = sorted({column for column in items if items.count(column) > 1})
        if twice:
            raise ConfigurationError(
                f"{owner}: {option_name('columns')} must name each column once, got {', '.join(twice)} more than once."
            )
        if taken.intersection(items):
            raise ConfigurationError(
                f"{owner}: the columns of the items must differ from those of the label, of the factors and of drop, "
                f"got {', '.join(sorted(taken.intersection(items)))} in both. Name each column once."
            )
    else:
        items = without_index(table, owner, [column for column in names if column not in taken])
        images = [column for column in items if kind_of(table.columns[column]) == "cells"]
        if len(images) > 1:
            raise DataError(
                f"{owner}: one column can hold images or arrays, got {', '.join(images)}. Pass "
                f"{passing('columns', images[0])} to choose it."
            )
        if images:
            others = [column for column in items if column not in images]
            label = label or next((column for column in others if column.casefold() in LABEL_COLUMNS), None)
            _say_left_out(owner, images[0], [column for column in others if column != label])
            items = images
    if not items:
        raise DataError(
            f"{owner}: at least one column must be left for the items, but {', '.join(names) or 'no column'} are the "
            "label, factors or left out. Name fewer columns."
        )
    _refuse_others(table, owner, items)
    return _Roles(items, factors, label)


def _say_left_out(owner: str, image: str, others: list[str]) -> None:
    if others:
        warnings.warn(
            f"{owner}: the items are the column {image!r}; {', '.join(others)} "
            f"{'is' if len(others) == 1 else 'are'} left out. Name columns in {keyword('label')} or "
            f"{keyword('factors')} to use them.",
            DataWarning,
            stacklevel=2,
        )


def _refuse_others(table: Table, owner: str, items: list[str]) -> None:
    """Raise an error if columns cannot be items."""
    others = [column for column in items if kind_of(table.columns[column]) != "numbers"]
    if not others or (len(items) == 1 and kind_of(table.columns[items[0]]) == "cells"):
        return
    first = f"{others[0]!r} contains {what_is_in(table.columns[others[0]])}"
    more = f" (others without numbers: {', '.join(others[1:])})" if len(others) > 1 else ""
    raise DataError(
        f"{owner}: every column must contain numbers, but {first}{more}. Pass {passing('drop', others)} to leave "
        f"{'it' if len(others) == 1 else 'them'} out, or name a column of classes in {keyword('label')} or "
        f"{keyword('factors')}."
    )


def _labels(table: Table, owner: str, column: str) -> Labels:
    found = column_labels(table.columns[column], owner, column)
    names = table.class_names.get(column, ())
    return Labels(found.numbers, names) if found.names is None and found.numbers.max() < len(names) else found


def _numbers(columns: dict[str, np.ndarray], owner: str, missing: Filling | Missing | None) -> np.ndarray:
    """The columns next to each other; missing values are filled in or, if they are masked, NaN."""
    counts = {name: int(missing_in(values).sum()) for name, values in columns.items()}
    counts = {name: count for name, count in counts.items() if count}
    empty = [name for name, count in counts.items() if count == len(columns[name])]
    if counts and (missing is None or empty):
        listed = ", ".join(f"{name} ({count})" for name, count in counts.items())
        ways = (
            f", {setting('missing', MEAN)} to fill in their means, or {setting('missing', MASK)} to train without "
            "these cells"
        )
        raise DataError(
            f"{owner}: values must not be missing, but they are in {listed}. Pass "
            f"{passing('drop', empty or list(counts))} to leave these columns out{'' if empty else ways}."
        )
    if missing == MASK:
        return np.column_stack(list(columns.values()))
    filled = [
        np.where(np.isnan(values), np.nanmean(values), values).astype(values.dtype) if name in counts else values
        for name, values in columns.items()
    ]
    return np.column_stack(filled)


def _from_cells(cells: np.ndarray, owner: str, column: str, size: Size | None, colour: bool | None) -> np.ndarray:
    """The images, or the arrays, in one column."""
    if missing_in(cells).any():
        raise DataError(
            f"{owner}: every cell of {column!r} must hold an item, but that of item {missing_in(cells).argmax()} is "
            "empty. Remove such rows."
        )
    if isinstance(cells[0], bytes | dict):
        contents = [_content(cell, owner, column, item) for item, cell in enumerate(cells)]
        files = [(Path(f"{owner}, item {item}"), content) for item, content in enumerate(contents)]
        return read_images(owner, files, size, colour)
    try:
        arrays = [_array(cell) for cell in cells]
    except ValueError as error:
        raise DataError(f"{owner}: the cells of {column!r} must be images or arrays of numbers: {error}.") from error
    for item, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise DataError(
                f"{owner}: all arrays in {column!r} must have the same shape, but that of item 0 is {arrays[0].shape} "
                f"and that of item {item} is {array.shape}. Pad or cut them."
            )
    return np.stack(arrays)


def _content(cell: object, owner: str, column: str, item: int) -> bytes:
    """The bytes of an image: the cell itself, or a part of it as the library datasets writes images."""
    content = cell.get("bytes") if isinstance(cell, dict) else cell
    if not isinstance(content, bytes):
        raise DataError(
            f"{owner}: the images in {column!r} must be stored as bytes, but item {item} "
            f"{'is only the path of a file' if isinstance(cell, dict) and cell.get('path') else 'has none'}. Store the "
            "images in the table, or pass the folder that contains them."
        )
    return content


def _array(cell: object) -> np.ndarray:
    """Nested lists or arrays as one array of numbers."""
    array = np.asarray(cell)
    if array.dtype == object:
        array = np.stack([_array(part) for part in array]) if array.ndim else array
    if array.dtype.kind not in "biuf":
        raise ValueError(f"got {type(cell).__name__}")
    return array
