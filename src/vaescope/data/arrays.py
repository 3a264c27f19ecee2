"""Data held in memory or memory-mapped: arrays, tensors, torch data sets; checked and hashed in one pass."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from vaescope.codes.factors import codes_of
from vaescope.data.dataset import Dataset, Factors
from vaescope.data.factors import factor_table_of, whole_label
from vaescope.errors import DataError
from vaescope.progress import follow

CHUNK_BYTES = 16 * 2**20
LONG_BYTES = 2**30
LONG_ITEMS = 500
TORCH_TYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, repr=False)
class ArrayDataset(Dataset):
    """Items as they were given, in memory or memory-mapped, made float32 a batch at a time.

    Whole-number pixels are divided by 255 on the way out; vectors come out as they are.
    """

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
            rows = self.items[index.to(self.items.device)]
        else:
            rows = _native(self.items[index.cpu().numpy()], self.is_image)
        # Moved before it is widened: a byte per pixel crosses to the accelerator, not four.
        moved = rows.to(index.device).reshape(len(index), *self.shape)
        if self.is_image and rows.dtype == torch.uint8:
            return pixel_shares(moved)
        return moved.to(torch.float32).contiguous()

    def to(self, device: torch.device | str) -> ArrayDataset:
        if isinstance(self.items, Tensor):
            return replace(self, items=self.items.to(device))
        if torch.device(device).type == "cpu":
            return self
        return replace(self, items=_native(self.items, self.is_image).to(device))

    @property
    def fingerprint(self) -> str:
        return self.digest

    @property
    def factors(self) -> Int[Tensor, "items factors"] | None:
        return self.factor_codes


def pixel_shares(pixels: UInt8[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Whole-number pixels over 255 in float32, the same bits on every device.

    On an accelerator a division by a number becomes a product with its inverse, which rounds half of the 256 values
    otherwise; in float64 neither shows.
    """
    if pixels.is_cuda:
        return (pixels.to(torch.float64) * (1 / 255)).to(torch.float32).contiguous()
    return pixels.to(torch.float32).contiguous().div_(255)


def from_array(
    array: Any,
    name: str = "array",
    *,
    labels: Any = None,
    factors: Any = None,
    factor_names: tuple[str, ...] | None = None,
    image: bool | None = None,
) -> ArrayDataset:
    """A data set of the rows of an array or tensor, which is kept, not copied.

    `items x dimensions` holds vectors; `items x height x width`, `items x height x width x channels` and
    `items x channels x height x width` hold images with 1 or 3 channels: truth values, integers in 0..255 or
    floats in [0, 1]. `image=False` takes each item as one vector whatever its shape.
    """
    rows = _numbers(array, name)
    if rows.ndim < 2:
        raise DataError(
            f"{name}: an array must be items x dimensions or items x image, got shape {rows.shape}. "
            "Reshape it, with array[:, None] if each item is one number."
        )
    if len(rows) < 2:
        raise _too_few(name, len(rows))
    if 0 in rows.shape:
        raise DataError(f"{name}: an item must hold at least one number, got an array of shape {rows.shape}.")
    rows, shape = _arrange(rows, name, image)
    minimum, maximum, digest = _inspect(rows, name)
    if len(shape) == 3:
        rows = _as_pixels(rows, name, minimum, maximum)
    label_codes = None if labels is None else torch.from_numpy(codes_of(labels, len(rows), name, "labels", 1))
    table, factor_codes = factor_table_of(factors, factor_names, len(rows), name)
    return ArrayDataset(name, _held(rows), shape, digest, label_codes, table, factor_codes)


def from_torch_dataset(dataset: Any, name: str | None = None, *, image: bool | None = None) -> ArrayDataset:
    """A data set of the items of a map-style torch Dataset, read once; of a tuple the second is the label."""
    name = type(dataset).__name__ if name is None else name
    if not hasattr(dataset, "__len__"):
        raise DataError(f"{name}: a torch Dataset must have a length; collect a stream in an array first.")
    items = len(dataset)
    if items < 2:
        raise _too_few(name, items)
    first, label = _entry(dataset[0], name, 0)
    rows = np.empty((items, *first.shape), first.dtype)
    labels = None if label is None else np.empty(items, np.int64)
    for position in follow(range(items), f"reading {name}", items, long=items > LONG_ITEMS):
        item, label = _entry(dataset[position], name, position)
        if (item.shape, item.dtype) != (first.shape, first.dtype):
            raise DataError(
                f"{name}: all items must have the shape and type of the first, {first.shape} {first.dtype}; "
                f"item {position} has {item.shape} {item.dtype}. Bring them to one size and type."
            )
        rows[position] = item
        if labels is not None:
            labels[position] = whole_label(label, name, position)
    return from_array(rows, name, labels=labels, image=image)


def fingerprint_of(path: Path) -> str:
    """The SHA-256 of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(CHUNK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _too_few(name: str, items: int) -> DataError:
    return DataError(f"{name}: at least 2 items are needed, to train on and to hold out, got {items}.")


def _is_mapped(rows: np.ndarray) -> bool:
    """Whether an array still lies in a mapped file: a copy of such an array keeps its class, not its file."""
    return isinstance(rows, np.memmap) and rows.filename is not None


def _numbers(array: Any, name: str) -> np.ndarray:
    """The array as real numbers, still mapped if it was."""
    if isinstance(array, Tensor):
        tensor = array.detach().cpu()
        array = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    if isinstance(array, np.ma.MaskedArray):
        raise DataError(f"{name}: items must be known numbers, got a masked array. Fill in or drop items.")
    rows = array if isinstance(array, np.memmap) else np.asarray(array)
    if not (np.issubdtype(rows.dtype, np.number) or rows.dtype == bool):
        raise DataError(f"{name}: items must be numbers, got type {rows.dtype}. Convert to float or uint8.")
    if np.iscomplexobj(rows):
        raise DataError(f"{name}: items must be real numbers, got {rows.dtype}. Take the real part.")
    return rows


def _native(rows: np.ndarray, is_image: bool) -> Tensor:
    """Rows of any numeric type as a tensor: pixels in whole numbers as bytes, all else as float32."""
    whole = is_image and np.issubdtype(rows.dtype, np.integer)
    kind = np.uint8 if whole else np.bool_ if rows.dtype == bool else np.float32
    return torch.from_numpy(np.require(rows, kind, ["C_CONTIGUOUS", "WRITEABLE"]))


def _held(rows: np.ndarray) -> np.ndarray | Tensor:
    """A tensor on the same memory where torch can have one, as it gathers faster; else the array itself."""
    plain = rows.flags.writeable and rows.dtype.isnative and min(rows.strides) >= 0 and not _is_mapped(rows)
    return torch.from_numpy(rows) if plain and rows.dtype.name in TORCH_TYPES else rows


def _entry(entry: Any, name: str, position: int) -> tuple[np.ndarray, Any]:
    """The item of one entry of a torch Dataset and its label, or None."""
    pair = isinstance(entry, (tuple, list))
    item = _numbers(entry[0] if pair else entry, f"{name}, item {position}")
    return item, entry[1] if pair and len(entry) > 1 else None


def _arrange(rows: np.ndarray, name: str, image: bool | None) -> tuple[np.ndarray, tuple[int, ...]]:
    """The rows as vectors or as channels x height x width (views where possible), and an item's shape."""
    if rows.ndim == 2:
        if image:
            raise DataError(f"{name}: images need height and width, got rows of {rows.shape[1]}. Reshape them.")
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
    stride = max(1, CHUNK_BYTES // rows[0].nbytes)
    starts = range(0, len(rows), stride)
    minimum, maximum = np.inf, -np.inf
    for start in follow(starts, f"checking {name}", len(starts), long=rows.nbytes > LONG_BYTES):
        chunk = np.ascontiguousarray(rows[start : start + stride])
        low, high = float(chunk.min()), float(chunk.max())
        if not (low >= -LARGEST and high <= LARGEST):
            bad = ~(np.abs(chunk.reshape(len(chunk), -1)) <= LARGEST).all(1)
            raise DataError(
                f"{name}: every number must be finite in single precision, item {start + int(bad.argmax())} "
                "holds a NaN, an infinity or more than 3e38. Drop such items or fill them in."
            )
        minimum, maximum = min(minimum, low), max(maximum, high)
        digest.update(chunk.data)
    if minimum == maximum:
        raise DataError(f"{name}: the items must differ, all are {minimum:g}. Check how they were read.")
    return minimum, maximum, digest.hexdigest()


def _as_pixels(rows: np.ndarray, name: str, minimum: float, maximum: float) -> np.ndarray:
    """Whole-number pixels in 0..255, as uint8 if in memory; floats in [0, 1] and truth values as they are."""
    if np.issubdtype(rows.dtype, np.integer):
        if minimum < 0 or maximum > 255:
            raise DataError(
                f"{name}: whole-number pixels must lie in 0..255, got {minimum:g}..{maximum:g}. Rescale them "
                "or pass image=False to take each item as a vector."
            )
        return rows if _is_mapped(rows) else rows.astype(np.uint8, copy=False)
    if minimum < 0 or maximum > 1:
        raise DataError(
            f"{name}: pixels given as floats must lie in [0, 1], got {minimum:g}..{maximum:g}. Divide by the "
            "largest value, or pass image=False to take each item as a vector."
        )
    return rows
