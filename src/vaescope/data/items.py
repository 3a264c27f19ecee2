"""Items for a trained model: one or several, in the shape of the training items."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from functools import partial
from typing import TypeGuard

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from vaescope.codes.arrays import ArrayLike, as_numpy, class_numbers
from vaescope.data import DataLike, open_as_given, open_scaled
from vaescope.data.arrays import ArrayDataset, from_rows
from vaescope.data.cells import AnnData, is_anndata
from vaescope.data.columns import table_of
from vaescope.data.dataset import Dataset, Factors, Missing
from vaescope.data.file_rows import watched
from vaescope.data.labels import Labels
from vaescope.data.pixel_scale import UNIT_SCALE, PixelScale
from vaescope.data.sparse import SparseMatrix
from vaescope.errors import DataError

# What has labels and factors of its own.
SOURCE_TYPES = (Dataset, str, os.PathLike, Mapping, torch.utils.data.Dataset, torch.utils.data.DataLoader)


def open_items(
    x: DataLike,
    shape: tuple[int, ...],
    name: str = "x",
    *,
    labels: ArrayLike | None = None,
    factors: ArrayLike | None = None,
    factor_table: Factors | None = None,
    scale: PixelScale = UNIT_SCALE,
    missing: Missing | None = None,
) -> Dataset:
    """Items of the given shape, read as `open_dataset` reads data to train on; there may be one, and it may be blank.

    Args:
        x: Anything that `open_dataset` takes; an array may also be one item. The channels of images come first, last
            or, if there is one, can be omitted. Integer pixels are in 0..255, float pixels in [0, 1].
        shape: The shape of an item: (channels, height, width), (channels, length) or (dimensions,).
        name: The name of `x` in error messages.
        labels: For an array: the class number of each item, or one for all.
        factors: For an array: the factor codes of each item, or one combination for all.
        factor_table: Names and sizes of the factors, which the codes do not contain.
        scale: The scale of images: that of the data that the model was trained on.
        missing: For an array: 'mask' if the model takes NaNs as missing values.
    """
    if is_sparse(x) or isinstance(x, SOURCE_TYPES):
        if labels is not None or factors is not None:
            raise DataError(
                f"labels and factors can be passed with an array only; {name} is of type {type(x).__name__}, whose "
                "labels and factors come from open_dataset. Pass them there."
            )
        opened = open_as_given(x) if is_sparse(x) else open_scaled(x, scale)
        check_shape(opened, shape, "as the model was built for")
        return opened
    _check_columns(x, name)
    rows = as_numpy(x, name)
    rows = rows[None] if _is_one_item(rows.shape, shape) else rows
    if rows.ndim == 0 or len(rows) == 0 or _layout(rows.shape[1:], shape) is None:
        raise DataError(
            f"{name} must be one item of shape {shape}, as the model was built for, or several such items, got shape "
            f"{tuple(rows.shape)}. Resize or reshape it."
        )
    return from_rows(
        watched(rows),
        name,
        partial(_arrange, shape=shape),
        labels=None if labels is None else Labels(_class_numbers(labels, len(rows))),
        factors=None if factors is None else _factor_codes(factors, factor_table, len(rows)),
        scale=scale,
        missing=missing,
    )


def is_sparse(x: object) -> TypeGuard[SparseMatrix | AnnData]:
    """Whether this is a sparse matrix, or an AnnData, which usually has one."""
    return isinstance(x, SparseMatrix) or is_anndata(x)


def check_shape(data: Dataset, shape: tuple[int, ...], why: str) -> None:
    """Raise an error unless the items have this shape."""
    if tuple(data.shape) != tuple(shape):
        raise DataError(f"{data.name} must have items of shape {tuple(shape)}, {why}, got {tuple(data.shape)}.")


def conditions_only(
    items: int, labels: ArrayLike | None, factors: ArrayLike | None, factor_table: Factors | None
) -> Dataset:
    """Items without content that have labels and factors: the conditions of a conditional model.

    The arguments are those of `open_items`.
    """
    codes = None if factors is None else _factor_codes(factors, factor_table, items)
    return ArrayDataset(
        "the items to decode",
        torch.zeros(items, 1),
        (1,),
        "",
        None if labels is None else torch.from_numpy(_class_numbers(labels, items)),
        *((None, None) if codes is None else codes),
    )


def _check_columns(x: DataLike, name: str) -> None:
    """Raise an error for a data frame with columns that are not numbers."""
    table = None if isinstance(x, np.ndarray | Tensor | list | tuple) else table_of(x)
    others = [] if table is None else [column for column, values in table.columns.items() if values.dtype == object]
    if others:
        raise DataError(
            f"{name}: the columns must be those of the training items, in their order and all numbers, but "
            f"{', '.join(map(repr, others))} {'is' if len(others) == 1 else 'are'} not. Choose those columns."
        )


def _is_one_item(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether an array of this shape is one item rather than several."""
    return _layout(given, shape) is not None and (given == shape or _layout(given[1:], shape) is None)


def _layout(given: tuple[int, ...], shape: tuple[int, ...]) -> str | None:
    """How the numbers of an item are arranged; None if it has another shape."""
    if len(shape) == 1:
        # A model of vectors may have been trained on images as vectors.
        return "as they are" if math.prod(given) == shape[0] else None
    channels, *sides = shape
    if given == shape or (channels == 1 and given == tuple(sides)):
        return "as they are"
    return "channels last" if given == (*sides, channels) else None


def _arrange(rows: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The rows in the shape of the items, views where possible."""
    last = _layout(rows.shape[1:], shape) == "channels last"
    return np.moveaxis(rows, -1, 1) if last else rows.reshape(-1, *shape)


def _class_numbers(labels: ArrayLike, items: int) -> Int[np.ndarray, "items"]:
    """One class number for each item, also from one for all."""
    given = as_numpy(labels, "labels")
    return class_numbers(np.full(items, given) if given.ndim == 0 else given, items, "x", "labels", (1,))


def _factor_codes(
    factors: ArrayLike, table: Factors | None, items: int
) -> tuple[Factors, Int[Tensor, "items factors"]]:
    """Factors and the codes of each item, also from one combination for all."""
    if table is None:
        raise DataError("factors are scaled by the number of their values, which is that of the data. Pass a data set.")
    given = as_numpy(factors, "factors")
    rows = np.broadcast_to(given, (items, len(table.sizes))) if given.shape == (len(table.sizes),) else given
    codes = class_numbers(rows, items, "x", "factors", (1, 2)).reshape(items, -1)
    if codes.shape[1] != len(table.sizes) or (codes >= np.asarray(table.sizes)).any():
        allowed = ", ".join(f"{name} 0..{size - 1}" for name, size in zip(table.names, table.sizes, strict=True))
        raise DataError(
            f"factors must be one code for each of the {len(table.sizes)} factors of the data ({allowed}), got "
            f"{codes.shape[1]} per item, up to {', '.join(map(str, codes.max(0)))}."
        )
    return table, torch.from_numpy(codes)
