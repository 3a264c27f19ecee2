"""Data in memory or memory-mapped: arrays, tensors and torch data sets, checked and hashed in one pass."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sized
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeGuard

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from vaescope.codes.arrays import TORCH_TYPES, ArrayLike, as_numpy, class_numbers
from vaescope.data.dataset import Dataset, Factors
from vaescope.data.file_rows import FileRows, Rows, watched
from vaescope.errors import DataError
from vaescope.progress import track

CHUNK_BYTES = 16 * 2**20
PROGRESS_BAR_BYTES = 2**30
PROGRESS_BAR_ITEMS = 500
MAX_FLOAT32 = float(np.finfo(np.float32).max)


@dataclass(frozen=True, repr=False)
class ArrayDataset(Dataset):
    """Items stored as they were given, in memory or in a file, and converted to float32 by the batch.

    Integer pixels are divided by 255; vectors keep their values.
    """

    name: str
    items: Rows | Tensor
    shape: tuple[int, ...]
    digest: str
    labels: Int[Tensor, "items"] | None = None
    factor_table: Factors | None = None
    factor_codes: Int[Tensor, "items factors"] | None = None
    grid: bool = False

    def __len__(self) -> int:
        return len(self.items)

    def batch(self, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch ..."]:
        if isinstance(self.items, Tensor):
            rows = self.items[index.to(self.items.device)]
        else:
            rows = _as_tensor(self.items[index.cpu().numpy()], self.is_image)
        # Moved before it is converted: one byte per pixel crosses to the accelerator, not four.
        moved = rows.to(index.device).reshape(len(index), *self.shape)
        if self.is_image and rows.dtype == torch.uint8:
            return scale_pixels(moved)
        return moved.to(torch.float32).contiguous()

    def to(self, device: torch.device | str) -> ArrayDataset:
        if isinstance(self.items, Tensor):
            return replace(self, items=self.items.to(device))
        if torch.device(device).type == "cpu":
            return self
        return replace(self, items=_as_tensor(self.items[:], self.is_image).to(device))

    @property
    def fingerprint(self) -> str:
        return self.digest

    @property
    def factors(self) -> Int[Tensor, "items factors"] | None:
        return self.factor_codes


def as_grid(dataset: ArrayDataset) -> ArrayDataset:
    """The same data set, marked as a grid if its items are all combinations of its factor values, in order."""
    table, codes = dataset.factor_table, dataset.factor_codes
    if table is None or codes is None or table.cells != len(dataset):
        return dataset
    return replace(dataset, grid=torch.equal(table.index(codes), torch.arange(len(dataset))))


def scale_pixels(pixels: UInt8[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Integer pixels divided by 255 in float32, with the same bits on every device.

    An accelerator turns a division by a constant into a product with its inverse, which rounds half of the 256 values
    differently. In float64 neither rounding shows.
    """
    if pixels.is_cuda:
        return (pixels.to(torch.float64) * (1 / 255)).to(torch.float32).contiguous()
    return pixels.to(torch.float32).contiguous().div_(255)


def from_array(
    array: ArrayLike | FileRows,
    name: str = "array",
    *,
    labels: ArrayLike | None = None,
    factors: ArrayLike | None = None,
    factor_names: tuple[str, ...] | None = None,
    image: bool | None = None,
) -> ArrayDataset:
    """A data set of the rows of an array, tensor or file, which are shared, not copied.

    Args:
        array: Vectors as items x dimensions, or images as items x height x width, items x height x width x channels
            or items x channels x height x width, with 1 or 3 channels. Pixels are booleans, integers in 0..255 or
            floats in [0, 1].
        labels: One class number for each item.
        factors: Factor codes, items x factors, as integers from 0.
        factor_names: Names of the columns of `factors`. Default: factor 0, factor 1, ...
        image: False to treat each item as a vector, whatever its shape. Default: decided by the shape.
    """
    name = name.encode(errors="backslashreplace").decode()  # a path may have bytes that are no text
    rows = array if isinstance(array, FileRows) else watched(as_numpy(array, f"{name}: items"))
    if len(rows.shape) < 2:
        raise DataError(
            f"{name}: an array must be items x dimensions or items x image, got shape {rows.shape}. "
            "Reshape it; use array[:, None] if each item is one number."
        )
    if len(rows) < 2:
        raise _too_few_items(name, len(rows))
    if 0 in rows.shape:
        raise DataError(f"{name}: an item must contain at least one number, got an array of shape {rows.shape}.")
    arrange = partial(_arrange, name=name, image=image)
    rows = rows.arranged(arrange) if isinstance(rows, FileRows) else arrange(rows)
    shape = rows.shape[1:]
    minimum, maximum, digest = _inspect(rows, name)
    if len(shape) == 3:
        rows = _as_pixels(rows, name, minimum, maximum)
    label_codes = None if labels is None else torch.from_numpy(class_numbers(labels, len(rows), name, "labels", (1,)))
    table, factor_codes = (None, None) if factors is None else _factor_table(factors, factor_names, len(rows), name)
    return ArrayDataset(name, _storage(rows), shape, digest, label_codes, table, factor_codes)


def from_torch_dataset(
    dataset: torch.utils.data.Dataset[object], name: str | None = None, *, image: bool | None = None
) -> ArrayDataset:
    """The items of a map-style torch Dataset, read once; the second entry of a tuple is the label."""
    name = type(dataset).__name__ if name is None else name
    if not isinstance(dataset, Sized):
        raise DataError(f"{name}: a torch Dataset must have a length; collect the items of a stream in an array first.")
    items = len(dataset)
    if items < 2:
        raise _too_few_items(name, items)
    first, label = _item_and_label(dataset[0], name, 0)
    rows = np.empty((items, *first.shape), first.dtype)
    labels = None if label is None else np.empty(items, np.int64)
    for position in track(range(items), f"reading {name}", items, long=items > PROGRESS_BAR_ITEMS):
        item, label = _item_and_label(dataset[position], name, position)
        if (item.shape, item.dtype) != (first.shape, first.dtype):
            raise DataError(
                f"{name}: all items must have the shape and type of the first, {first.shape} {first.dtype}; "
                f"item {position} has {item.shape} {item.dtype}. Convert them to one shape and type."
            )
        rows[position] = item
        if labels is not None:
            labels[position] = _class_number(label, name, position)
    return from_array(rows, name, labels=labels, image=image)


def fingerprint_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _too_few_items(name: str, items: int) -> DataError:
    return DataError(f"{name}: a data set needs at least 2 items, one to train on and one to hold out, got {items}.")


def _in_memory(rows: Rows) -> TypeGuard[np.ndarray]:
    """Whether rows have no file behind them; a copy of a memory map keeps its class, but not its file."""
    return isinstance(rows, np.ndarray) and getattr(rows, "filename", None) is None


def _as_tensor(rows: np.ndarray, is_image: bool) -> Tensor:
    """Rows of any numeric type as a tensor: integer pixels as bytes, everything else as float32."""
    whole = is_image and np.issubdtype(rows.dtype, np.integer)
    kind = np.uint8 if whole else np.bool_ if rows.dtype == bool else np.float32
    return torch.from_numpy(np.require(rows, kind, ["C_CONTIGUOUS", "WRITEABLE"]))


def _storage(rows: Rows) -> Rows | Tensor:
    """A tensor on the same memory where torch supports it, because it is faster to index; else the array itself."""
    plain = rows.dtype.isnative and rows.dtype.name in TORCH_TYPES
    if plain and _in_memory(rows) and rows.flags.writeable and min(rows.strides) >= 0:
        return torch.from_numpy(rows)
    return rows


def _item_and_label(entry: object, name: str, position: int) -> tuple[np.ndarray, object]:
    """The item of one entry of a torch Dataset, and its label or None."""
    item, label = entry, None
    if isinstance(entry, tuple | list):
        item, label = entry[0], entry[1] if len(entry) > 1 else None
    return as_numpy(item, f"{name}, item {position}"), label


def _arrange(rows: np.ndarray, name: str, image: bool | None) -> np.ndarray:
    """The rows as vectors or as channels x height x width, views where possible."""
    if rows.ndim == 2:
        if image:
            raise DataError(f"{name}: images need height and width, got rows of {rows.shape[1]} numbers. Reshape them.")
        return rows
    if image is False:
        return rows.reshape(len(rows), -1)
    if rows.ndim == 3:
        return rows[:, None]
    if rows.ndim == 4 and rows.shape[-1] in (1, 3) and rows.shape[1] not in (1, 3):
        rows = np.moveaxis(rows, -1, 1)
    if rows.ndim != 4 or rows.shape[1] not in (1, 3):
        raise DataError(
            f"{name}: images must have 1 or 3 channels, first or last, got items of shape {rows.shape[1:]}. "
            "Pass image=False to treat each item as a vector."
        )
    return rows


def _inspect(rows: Rows, name: str) -> tuple[float, float, str]:
    """The minimum, the maximum and a hash of the content, computed a few megabytes at a time."""
    digest = hashlib.sha256(f"{rows.dtype.str}{rows.shape}".encode())
    row_bytes = rows.dtype.itemsize * math.prod(rows.shape[1:])
    stride = max(1, CHUNK_BYTES // row_bytes)
    starts = range(0, len(rows), stride)
    minimum, maximum = np.inf, -np.inf
    for start in track(starts, f"checking {name}", len(starts), long=len(rows) * row_bytes > PROGRESS_BAR_BYTES):
        chunk = np.ascontiguousarray(rows[start : start + stride])
        low, high = float(chunk.min()), float(chunk.max())
        if not (low >= -MAX_FLOAT32 and high <= MAX_FLOAT32):
            bad = ~(np.abs(chunk.reshape(len(chunk), -1)) <= MAX_FLOAT32).all(1)
            raise DataError(
                f"{name}: every number must be finite in single precision, but item {start + int(bad.argmax())} "
                "contains a NaN, an infinity or a number above 3e38. Drop such items or fill in the values."
            )
        minimum, maximum = min(minimum, low), max(maximum, high)
        digest.update(chunk.data)
    if minimum == maximum:
        raise DataError(f"{name}: the items must differ, but all numbers are {minimum:g}. Check how they were read.")
    return minimum, maximum, digest.hexdigest()


def _as_pixels(rows: Rows, name: str, minimum: float, maximum: float) -> Rows:
    """Integer pixels in 0..255, as uint8 if in memory; floats in [0, 1] and booleans unchanged."""
    integers = bool(np.issubdtype(rows.dtype, np.integer))
    if minimum < 0 or maximum > (255 if integers else 1):
        allowed = "integer pixels must lie in 0..255" if integers else "float pixels must lie in [0, 1]"
        raise DataError(
            f"{name}: {allowed}, got {minimum:g}..{maximum:g}. Rescale them, or pass image=False to treat each item "
            "as a vector."
        )
    return rows.astype(np.uint8, copy=False) if integers and _in_memory(rows) else rows


def _factor_table(
    factors: ArrayLike, names: tuple[str, ...] | None, items: int, name: str
) -> tuple[Factors, Int[Tensor, "items factors"]]:
    """Names and sizes of the factors, and their codes, as int16 where they fit."""
    codes = class_numbers(factors, items, name, "factors", (1, 2)).reshape(items, -1)
    names = names or tuple(f"factor {column}" for column in range(codes.shape[1]))
    if len(names) != codes.shape[1]:
        raise DataError(
            f"{name}: factor_names must have one name for each of the {codes.shape[1]} factors, got {len(names)}: "
            f"{names}."
        )
    sizes = tuple(int(largest) + 1 for largest in codes.max(0))
    kind = torch.int16 if max(sizes) <= torch.iinfo(torch.int16).max else torch.int64
    return Factors(tuple(names), sizes), torch.from_numpy(codes).to(kind)


def _class_number(value: object, name: str, position: int) -> int:
    number = np.asarray(value)
    if number.size != 1 or not np.issubdtype(number.dtype, np.integer):
        raise DataError(
            f"{name}: a label must be an integer, got {value!r} for item {position}. "
            "Return (item, class number), or the item alone."
        )
    return int(number.reshape(()))
