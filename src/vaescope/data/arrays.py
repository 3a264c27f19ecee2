"""Data held in memory or memory-mapped: arrays, tensors, torch data sets; checked and hashed in one pass."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.data.dataset import Dataset, Factors
from vaescope.errors import DataError

CHUNK_BYTES = 16 * 2**20


@dataclass(frozen=True, repr=False)
class ArrayDataset(Dataset):
    """Items stored as uint8 (images: divided by 255 on the way out) or float, in memory or memory-mapped."""

    name: str
    items: np.ndarray | Tensor
    shape: tuple[int, ...]
    digest: str
    labels: Int[Tensor, "items"] | None = None
    factor_table: Factors | None = None
    factor_codes: Int[Tensor, "items factors"] | None = None

    def __len__(self) -> int:
        return len(self.items)

    def batch(self, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch ..."]:
        if isinstance(self.items, Tensor):
            rows = self.items[index.to(self.items.device)].to(index.device)
        else:
            rows = torch.from_numpy(np.array(self.items[index.cpu().numpy()])).to(index.device)
        values = rows.reshape(len(index), *self.shape)
        return values.to(torch.float32) / 255 if values.dtype == torch.uint8 else values.to(torch.float32)

    def to(self, device: torch.device | str) -> ArrayDataset:
        items = self.items if isinstance(self.items, Tensor) else torch.from_numpy(np.array(self.items))
        return replace(self, items=items.to(device))

    @property
    def fingerprint(self) -> str:
        return self.digest

    @property
    def factors(self) -> Int[Tensor, "items factors"] | None:
        return self.factor_codes


def from_array(
    array: Any,
    name: str = "array",
    *,
    labels: Any = None,
    factors: Any = None,
    factor_names: tuple[str, ...] | None = None,
    image: bool | None = None,
) -> ArrayDataset:
    """A data set of the rows of an array or tensor.

    `items x dimensions` holds vectors; `items x height x width`, `items x height x width x channels` and
    `items x channels x height x width` hold images with 1 or 3 channels, integers in 0..255 or floats in
    [0, 1]. `image` settles what an array of floats is when its shape alone does not.
    """
    rows = array.detach().cpu().numpy() if isinstance(array, Tensor) else np.asanyarray(array)
    if rows.dtype == object or not (np.issubdtype(rows.dtype, np.number) or rows.dtype == bool):
        raise DataError(
            f"{name}: items must be numbers, got an array of type {rows.dtype}. Convert it to floats or uint8."
        )
    if np.iscomplexobj(rows):
        raise DataError(f"{name}: items must be real numbers, got {rows.dtype}. Take the real part or modulus.")
    if rows.ndim < 2:
        raise DataError(f"{name}: an array must be items x dimensions or items x image, got shape {rows.shape}.")
    if len(rows) < 2:
        raise DataError(f"{name}: at least 2 items are needed to train on and to hold out, got {len(rows)}.")
    rows, shape = _arrange(rows, name, image)
    minimum, maximum, digest = _inspect(rows, name)
    if len(shape) == 3:
        rows = _as_pixels(rows, name, minimum, maximum)
    label_codes = None if labels is None else _codes(labels, len(rows), name, "labels")
    table, factor_codes = _factor_table(factors, factor_names, len(rows), name)
    return ArrayDataset(name, rows, shape, digest, label_codes, table, factor_codes)


def from_torch_dataset(dataset: Any, name: str) -> ArrayDataset:
    """A data set of the items of a map-style torch Dataset; of a tuple the first is the item, the second its label."""
    if len(dataset) < 2:
        raise DataError(f"{name}: at least 2 items are needed to train on and to hold out, got {len(dataset)}.")
    first = dataset[0]
    labelled = isinstance(first, (tuple, list)) and len(first) > 1
    item = np.asarray(first[0] if isinstance(first, (tuple, list)) else first)
    rows = np.empty((len(dataset), *item.shape), item.dtype)
    labels = np.empty(len(dataset), np.int64) if labelled else None
    for position in range(len(dataset)):
        entry = dataset[position]
        value = np.asarray(entry[0] if isinstance(entry, (tuple, list)) else entry)
        if value.shape != item.shape:
            raise DataError(
                f"{name}: all items must have the shape of the first, {item.shape}; item {position} has {value.shape}."
            )
        rows[position] = value
        if labels is not None:
            labels[position] = _whole_label(entry[1], name, position)
    return from_array(rows, name, labels=labels)


def fingerprint_of(path: Path) -> str:
    """The SHA-256 of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(CHUNK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _whole_label(value: Any, name: str, position: int) -> int:
    number = np.asarray(value)
    if number.size != 1 or not np.issubdtype(number.dtype, np.integer):
        raise DataError(
            f"{name}: a label must be one whole number, got {value!r} for item {position}. "
            "Return (item, class number) or the item alone."
        )
    return int(number.reshape(()))


def _arrange(rows: np.ndarray, name: str, image: bool | None) -> tuple[np.ndarray, tuple[int, ...]]:
    """The rows as vectors or as channels x height x width (views where possible), and an item's shape."""
    if rows.ndim == 2:
        if image:
            raise DataError(f"{name}: images need height and width, got rows of {rows.shape[1]} numbers. Reshape them.")
        return rows, (rows.shape[1],)
    if image is False:
        return rows.reshape(len(rows), -1), (int(np.prod(rows.shape[1:])),)
    if rows.ndim == 3:
        return rows[:, None], (1, *rows.shape[1:])
    if rows.ndim == 4 and rows.shape[-1] in (1, 3) and rows.shape[1] not in (1, 3):
        rows = np.moveaxis(rows, -1, 1)
    if rows.ndim != 4 or rows.shape[1] not in (1, 3):
        raise DataError(
            f"{name}: images must have 1 or 3 channels, first or last, got items of shape {rows.shape[1:]}. "
            "Pass image=False to take each item as one vector."
        )
    return rows, rows.shape[1:]


def _inspect(rows: np.ndarray, name: str) -> tuple[float, float, str]:
    """The least and the greatest number and a hash of the content, a few megabytes at a time."""
    digest = hashlib.sha256(f"{rows.dtype.str}{rows.shape}".encode())
    stride = max(1, CHUNK_BYTES // max(1, rows[0].nbytes))
    minimum, maximum = np.inf, -np.inf
    for start in range(0, len(rows), stride):
        chunk = np.ascontiguousarray(rows[start : start + stride])
        low, high = float(chunk.min()), float(chunk.max())
        if not np.isfinite(low + high):
            where = start + int(np.flatnonzero(~np.isfinite(chunk.reshape(len(chunk), -1)).all(1))[0])
            raise DataError(
                f"{name}: every number must be finite, item {where} holds a NaN or an infinity. "
                "Drop such items or fill them in."
            )
        minimum, maximum = min(minimum, low), max(maximum, high)
        digest.update(chunk.tobytes())
    if minimum == maximum:
        raise DataError(
            f"{name}: the items must differ, all {len(rows)} are constant at {minimum:g}. Check how they were read."
        )
    return minimum, maximum, digest.hexdigest()


def _as_pixels(rows: np.ndarray, name: str, minimum: float, maximum: float) -> np.ndarray:
    """Whole-number pixels as uint8 in 0..255, floats as they are in [0, 1]."""
    if rows.dtype == bool:
        return rows.astype(np.uint8) * np.uint8(255)
    if np.issubdtype(rows.dtype, np.integer):
        if minimum < 0 or maximum > 255:
            raise DataError(f"{name}: whole-number pixels must lie in 0..255, got {minimum:g}..{maximum:g}. Rescale.")
        return rows if rows.dtype == np.uint8 else rows.astype(np.uint8)
    if minimum < 0 or maximum > 1:
        raise DataError(
            f"{name}: pixels given as floats must lie in [0, 1], got {minimum:g}..{maximum:g}. Divide by the largest "
            "value, or pass image=False to take each item as a vector."
        )
    return rows


def _codes(values: Any, items: int, name: str, what: str) -> Tensor:
    codes = torch.as_tensor(np.asarray(values.cpu() if isinstance(values, Tensor) else values))
    if len(codes) != items:
        raise DataError(f"{name}: {what} must have one row for each of the {items} items, got {len(codes)}.")
    if codes.is_floating_point() and not bool((codes == codes.round()).all()):
        raise DataError(f"{name}: {what} must be whole numbers, got {codes.dtype} with fractions. Bin them first.")
    return codes.to(torch.int64)


def _factor_table(
    factors: Any, names: tuple[str, ...] | None, items: int, name: str
) -> tuple[Factors | None, Tensor | None]:
    if factors is None:
        return None, None
    codes = _codes(factors, items, name, "factors")
    codes = codes[:, None] if codes.ndim == 1 else codes
    if int(codes.min()) < 0:
        raise DataError(f"{name}: factor codes must be 0, 1, 2, ..., got {int(codes.min())}.")
    names = names or tuple(f"factor {column}" for column in range(codes.shape[1]))
    if len(names) != codes.shape[1]:
        raise DataError(f"{name}: there must be a name for each of {codes.shape[1]} factors, got {len(names)}.")
    return Factors(tuple(names), tuple(int(size) + 1 for size in codes.max(0).values)), codes
