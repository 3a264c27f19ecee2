"""Labels and factors of any kind, numbers or words, as whole numbers and the names of classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from vaescope.codes.arrays import ArrayLike, class_numbers
from vaescope.data.columns import kind_of, missing_in, what_is_in
from vaescope.data.dataset import Factors
from vaescope.errors import DataError

MAX_FRACTIONS = 100  # different values of a column that are classes although they are no whole numbers


@dataclass(frozen=True)
class Labels:
    """The class number of each item, and the name of each class; None if the classes are known by number alone."""

    numbers: Int[np.ndarray, "items"]
    names: tuple[str, ...] | None = None


def as_labels(values: ArrayLike | Labels, items: int, owner: str) -> Labels:
    """One label for each item; words are numbered in alphabetical order.

    Args:
        values: Whole numbers from 0, booleans, or words.
        items: The number of items.
        owner: The name of the data set in error messages.
    """
    if isinstance(values, Labels):
        class_numbers(values.numbers, items, owner, "labels", (1,))
        return values
    words = _as_words(values, owner)
    if words is None:
        if isinstance(values, np.ndarray | Tensor) and values.ndim == 2 and len(values) == items:
            if values.shape[1] != 1:
                raise DataError(
                    f"{owner}: labels must be one number or word for each item, got shape {tuple(values.shape)}. Pass "
                    "labels.argmax(1) if they are one-hot."
                )
            values = values[:, 0]
        return Labels(class_numbers(values, items, owner, "labels", (1,)))
    names, numbers = np.unique(words, return_inverse=True)
    return Labels(class_numbers(numbers, items, owner, "labels", (1,)), tuple(map(str, names)))


def column_labels(values: np.ndarray, owner: str, column: str) -> Labels:
    """The labels in a column of a table: words, booleans, or numbers; whole numbers from 0 stay as they are."""
    kind = _checked_kind(values, owner, column, "label")
    if kind == "words":
        return as_labels(values, len(values), owner)
    if values.dtype == bool:
        return Labels(values.astype(np.int64), ("False", "True"))
    distinct = np.unique(values)
    as_given = distinct[0] >= 0 and bool((distinct == np.floor(distinct)).all())
    if as_given or len(distinct) > MAX_FRACTIONS:
        return as_labels(values, len(values), owner)
    return Labels(np.searchsorted(distinct, values), tuple(map(_as_word, distinct.tolist())))


def column_codes(values: np.ndarray, owner: str, column: str) -> Int[np.ndarray, "items"]:
    """The factor in a column of a table: the number of each value in the sorted values of the column."""
    kind = _checked_kind(values, owner, column, "factor")
    distinct, codes = np.unique(values.astype(np.str_) if kind == "words" else values, return_inverse=True)
    if kind == "numbers" and len(distinct) > MAX_FRACTIONS and (distinct != np.floor(distinct)).any():
        raise DataError(
            f"{owner}: a factor must have few different values, but the column {column!r} has {len(distinct)} "
            f"fractional numbers. Round them, or bin them to at most {MAX_FRACTIONS} values."
        )
    return codes.astype(np.int64)


def factor_codes(
    factors: ArrayLike, names: tuple[str, ...] | None, items: int, name: str
) -> tuple[Factors, Int[Tensor, "items factors"]]:
    """Names and sizes of the factors, and their codes, as int16 where they fit."""
    codes = class_numbers(_numbered(factors, name), items, name, "factors", (1, 2)).reshape(items, -1)
    names = names or tuple(f"factor {column}" for column in range(codes.shape[1]))
    if len(names) != codes.shape[1]:
        raise DataError(
            f"{name}: factor_names must have one name for each of the {codes.shape[1]} factors, got {len(names)}: "
            f"{names}."
        )
    sizes = tuple(int(largest) + 1 for largest in codes.max(0))
    kind = torch.int16 if max(sizes) <= torch.iinfo(torch.int16).max else torch.int64
    return Factors(tuple(names), sizes), torch.from_numpy(codes).to(kind)


def _numbered(factors: ArrayLike, owner: str) -> ArrayLike:
    """Factors with the values of each column numbered if they are words; numbers are returned unchanged."""
    if isinstance(factors, Tensor):
        return factors
    try:
        table = np.asarray(factors)
    except ValueError:  # rows of different lengths, which `class_numbers` describes
        return factors
    if table.dtype.kind not in "OUT" or table.ndim not in (1, 2) or kind_of(table.astype(object).ravel()) != "words":
        return factors
    columns = table.astype(object).reshape(len(table), -1).T
    return np.stack([column_codes(column, owner, f"factor {place}") for place, column in enumerate(columns)], axis=1)


def _as_word(value: float) -> str:
    """A number as the name of a class: -1 rather than -1.0."""
    return str(int(value)) if float(value).is_integer() else str(value)


def _checked_kind(values: np.ndarray, owner: str, column: str, role: str) -> str:
    """The kind of a column that holds the label or a factor: numbers or words, all known."""
    missing = missing_in(values)
    if missing.any():
        raise DataError(
            f"{owner}: the {role} must be known for every item, but the column {column!r} has {missing.sum()} missing "
            f"values, the first for item {missing.argmax()}. Fill them in, or remove these rows."
        )
    kind = kind_of(values)
    if kind not in ("numbers", "words"):
        raise DataError(
            f"{owner}: the {role} must be a number or a word, but the column {column!r} contains {what_is_in(values)}. "
            "Convert them, or choose another column."
        )
    return kind


def _as_words(values: ArrayLike, owner: str) -> np.ndarray | None:
    """The values as an array of strings; None if none of them is a string."""
    if isinstance(values, Tensor):
        return None
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths, which `class_numbers` describes
        return None
    if array.dtype.kind == "S":  # words of HDF5 files
        return np.char.decode(array, "utf-8").ravel()
    if array.dtype.kind not in "OUT":
        return None
    # A list, because numpy turns the numbers between words into words.
    entries = values if isinstance(values, list | tuple) and array.ndim == 1 else array.ravel().tolist()
    if not any(isinstance(entry, str) for entry in entries):
        return None
    for item, entry in enumerate(entries):
        if not isinstance(entry, str):
            raise DataError(
                f"{owner}: labels must be all words or all numbers, got {entry!r} for item {item}. Convert them, or "
                "drop the items without a label."
            )
    return array.astype(np.str_)
