"""Data in memory or memory-mapped: arrays and tensors, checked and hashed in one pass."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypedDict, TypeGuard

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.codes.arrays import TORCH_TYPES, ArrayLike, as_numpy
from vaescope.data.annotations import Annotation, annotate
from vaescope.data.dataset import UNIT_RANGE, Dataset, Factors, Missing, checked_missing
from vaescope.data.file_rows import FileRows, Rows, watched
from vaescope.data.fingerprints import ArrayFacts, known_facts
from vaescope.data.labels import Labels, as_labels, factor_codes
from vaescope.data.pixel_scale import UNIT_SCALE, PixelScale
from vaescope.data.pixels import ItemLayout, Levels, pixel_levels, scale_of_range, scale_pixels, unit_pixels
from vaescope.data.sources import Source, option_name, passing, setting
from vaescope.errors import ConfigurationError, DataError
from vaescope.progress import track

CHUNK_BYTES = 16 * 2**20
PROGRESS_BAR_BYTES = 2**30
PROGRESS_BAR_ITEMS = 500
NEEDS_TWO_ITEMS = "a data set needs at least 2 items, one to train on and one to hold out"
MAX_FLOAT32 = float(np.finfo(np.float32).max)


class RowOptions(TypedDict, total=False):
    """What the numbers in rows are: options of `from_array`."""

    image: bool | None
    signal: bool | None
    channels: str | None
    range: tuple[float, float] | None
    missing: Missing | None


@dataclass(frozen=True, repr=False)
class ArrayDataset(Dataset):
    """Items stored as they were given, in memory or in a file, and converted to float32 by the batch.

    Bytes of images are divided by 255; vectors and signals keep their values.

    Attributes:
        levels: The stored pixels that are black and white; None for bytes, and for pixels that a model sees as stored.
    """

    name: str
    items: Rows | Tensor
    shape: tuple[int, ...]
    digest: str
    labels: Int[Tensor, "items"] | None = None
    factor_table: Factors | None = None
    factor_codes: Int[Tensor, "items factors"] | None = None
    grid: bool = False
    label_names: tuple[str, ...] | None = None
    source: Source | None = field(default=None, compare=False)
    pixel_range: tuple[float, float] = UNIT_RANGE
    levels: Levels | None = None
    pixel_scale: PixelScale = UNIT_SCALE
    holds_counts: bool = False
    standardise: bool = False
    missing: Missing | None = None

    def __len__(self) -> int:
        return len(self.items)

    def batch(self, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch ..."]:
        # Moved before it is converted: one byte per pixel crosses to the accelerator, not four.
        return self.from_stored(self.stored(index).to(index.device))

    def stored(self, index: Int[Tensor, "batch"]) -> Tensor:
        if isinstance(self.items, Tensor):
            return self.items[index.to(self.items.device)]
        return _as_tensor(self.items[index.cpu().numpy()], self._holds_bytes)

    def from_stored(self, stored: Tensor) -> Float[Tensor, "batch ..."]:
        rows = stored.reshape(len(stored), *self.shape)
        if self.levels is not None:
            return unit_pixels(rows, self.levels)
        if self.is_image and rows.dtype == torch.uint8:
            return scale_pixels(rows)
        return rows.to(torch.float32).contiguous()

    def will_read(self, index: Int[Tensor, "batch"]) -> None:
        if isinstance(self.items, FileRows):
            self.items.will_read(index.cpu().numpy())

    def to(self, device: torch.device | str) -> ArrayDataset:
        if isinstance(self.items, Tensor):
            return replace(self, items=self.items.to(device))
        if torch.device(device).type == "cpu":
            return self
        rows = self.items
        whole = torch.empty(rows.shape, dtype=_as_tensor(rows[:1], self._holds_bytes).dtype, device=device)
        stride = max(1, CHUNK_BYTES // max(1, whole[:1].nbytes))
        for start in range(0, len(rows), stride):  # in parts: a file may be larger than the memory of this machine
            whole[start : start + stride] = _as_tensor(rows[start : start + stride], self._holds_bytes)
        return replace(self, items=whole)

    @property
    def resident_bytes(self) -> int:
        if isinstance(self.items, Tensor):
            return self.items.nbytes
        return math.prod(self.items.shape) * _stored_type(self.items.dtype, self._holds_bytes).itemsize

    @property
    def _holds_bytes(self) -> bool:
        """Whether integers are pixels of 8 bits."""
        return self.is_image and self.levels is None

    @property
    def fingerprint(self) -> str:
        return self.digest


def as_grid(dataset: ArrayDataset) -> ArrayDataset:
    """The same data set, marked as a grid if its items are all combinations of its factor values, in order."""
    table, codes = dataset.factor_table, dataset.factor_codes
    if table is None or codes is None or table.cells != len(dataset):
        return dataset
    return replace(dataset, grid=torch.equal(table.index(codes), torch.arange(len(dataset))))


def from_array(
    array: ArrayLike | FileRows,
    name: str = "array",
    *,
    labels: Annotation | Labels | None = None,
    factors: Annotation | None = None,
    factor_names: tuple[str, ...] | None = None,
    image: bool | None = None,
    signal: bool | None = None,
    channels: str | None = None,
    range: tuple[float, float] | None = None,
    as_given: bool = False,
    missing: Missing | None = None,
) -> ArrayDataset:
    """A data set of the rows of an array, tensor or file, which are shared, not copied.

    Args:
        array: Vectors as items x dimensions, signals as items x channels x length, or images as items x height x width,
            items x height x width x channels or items x channels x height x width. Pixels are booleans, floats in
            [0, 1], integers in 0..255, or integers in 0..65535, which are divided by 65535 if any is above 255.
        labels: The class of each item: a whole number from 0, or a word; words are numbered in alphabetical order.
            Also a data frame, or the path of a .csv or .parquet file, with one column.
        factors: Factor codes, items x factors, as integers from 0; or a data frame, or the path of a .csv or .parquet
            file, with one column for each factor and a header. A column called label holds the labels.
        factor_names: Names of the factors. Default: those of the columns, or factor 0, factor 1, ...
        image: False to treat each item as a vector, whatever its shape. Default: decided by the shape.
        signal: Whether items of two dimensions are signals, not grey images. Default: if one side is at least four
            times as long as the other, unless the numbers are bytes or booleans.
        channels: 'first' or 'last'. Default: where there are 1 or 3, or clearly fewer than pixels in a row.
        range: The numbers that are black and white, such as (-1, 1), of images that have others. A run on them takes
            and gives pixels in this range.
        as_given: Whether images are preprocessed for a model of another library: floats of any range, any number of
            channels, and one item is enough. No model can be trained on them.
        missing: 'mask' if cells of vectors may be NaN: the encoder sees the mean of their dimension, and the
            likelihood leaves them out. Default: a NaN is an error.
    """
    missing = checked_missing(missing)
    name = name.encode(errors="backslashreplace").decode()  # a path may contain bytes that are not valid text
    rows = array if isinstance(array, FileRows) else watched(as_numpy(array, f"{name}: items"))
    if len(rows.shape) < 2:
        raise DataError(
            f"{name}: an array must be items x dimensions or items x image, got shape {rows.shape}. "
            "Reshape it; use array[:, None] if each item is one number."
        )
    check_items(name, rows.shape, as_given)
    given = annotate(name, labels, factors, factor_names)
    layout = ItemLayout(image, signal, channels, as_given, small=rows.dtype in (np.bool_, np.uint8))
    found = from_rows(
        rows,
        name,
        partial(layout.arranged, name=name),
        labels=None if given.labels is None else as_labels(given.labels, len(rows), name),
        factors=None if given.factors is None else factor_codes(given.factors, given.factor_names, len(rows), name),
        training=not as_given,
        any_range=as_given,
        scale=None if range is None else scale_of_range(range),
        missing=missing,
    )
    if range is not None and not found.is_image:
        raise ConfigurationError(
            f"{name}: {option_name('range')} is an option of images, got items of shape {found.shape}. Remove it."
        )
    return found


def from_rows(
    rows: Rows,
    name: str,
    arrange: Callable[[np.ndarray], np.ndarray],
    *,
    labels: Labels | None = None,
    factors: tuple[Factors, Int[Tensor, "items factors"]] | None = None,
    training: bool = False,
    any_range: bool = False,
    scale: PixelScale | None = None,
    missing: Missing | None = None,
) -> ArrayDataset:
    """A data set of the rows after `arrange`.

    Args:
        factors: Names and sizes of the factors, and their codes.
        training: Whether a model may be trained on the rows, which must then differ.
        any_range: Whether the floats of images may lie outside [0, 1].
        scale: The scale of images. Default: chosen from the numbers.
        missing: As in `from_array`.
    """
    rows = rows.arranged(arrange) if isinstance(rows, FileRows) else arrange(rows)
    shape = rows.shape[1:]
    if missing is not None and len(shape) == 3:
        raise DataError(f"{name}: missing={missing!r} is for vectors and signals, got images of shape {shape}.")
    facts = known_facts(rows, partial(_inspect, rows, name, missing, training), f"{missing} {training}")
    lowest, highest, digest = facts.minimum, facts.maximum, facts.digest
    if training and lowest == highest:
        raise DataError(f"{name}: the items must differ, but all numbers are {lowest:g}. Check how they were read.")
    pixel_range, levels, known = UNIT_RANGE, None, UNIT_SCALE
    if len(shape) == 3 and any_range and scale is None and np.issubdtype(rows.dtype, np.floating):
        pixel_range = UNIT_RANGE if 0 <= lowest <= highest <= 1 else (lowest, highest)
    elif len(shape) == 3:
        instead = f", {_other_kinds(shape)}" if training else ""
        levels, known = pixel_levels(rows.dtype, lowest, highest, scale, name, instead)
        rows = _in_bytes(rows) if levels is None else rows
    if not known.is_unit or known.integer_white == 1:
        # The same numbers in another range are other data.
        digest = hashlib.sha256(f"{digest} {known.black} {known.white}".encode()).hexdigest()
    table, codes = (None, None) if factors is None else factors
    return ArrayDataset(
        name,
        _storage(rows),
        shape,
        digest,
        labels=None if labels is None else torch.from_numpy(labels.numbers),
        label_names=None if labels is None else labels.names,
        factor_table=table,
        factor_codes=codes,
        pixel_range=pixel_range,
        levels=levels,
        pixel_scale=known,
        missing=missing,
    )


def _other_kinds(shape: Sequence[int]) -> str:
    """What items that were taken for images may be instead: the end of a sentence that says what to pass."""
    vector = f"or {setting('image', False)} to treat each item as a vector"
    return vector if shape[0] > 1 else f"{setting('signal', True)} if they are signals, {vector}"


def fingerprint_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_items(name: str, shape: tuple[int, ...], as_given: bool) -> None:
    """Raise an error unless there are enough items, which contain numbers; one is enough for a trained model."""
    if shape[0] < (1 if as_given else 2):
        least = "there must be at least one item" if as_given else NEEDS_TWO_ITEMS
        raise DataError(f"{name}: {least}, got {shape[0]}.")
    if 0 in shape:
        raise DataError(f"{name}: an item must contain at least one number, got an array of shape {shape}.")


def _in_memory(rows: Rows) -> TypeGuard[np.ndarray]:
    """Whether the rows are in memory; a copy of a memory map keeps its class, but not its file."""
    return isinstance(rows, np.ndarray) and getattr(rows, "filename", None) is None


def _stored_type(kind: np.dtype[np.generic], in_bytes: bool) -> np.dtype[np.generic]:
    """The type in which rows become a tensor: integers as bytes if they are such, everything else as float32."""
    whole = in_bytes and np.issubdtype(kind, np.integer)
    return np.dtype(np.uint8 if whole else np.bool_ if kind.kind == "b" else np.float32)


def _as_tensor(rows: np.ndarray, in_bytes: bool) -> Tensor:
    """Rows of any numeric type as a tensor."""
    return torch.from_numpy(np.require(rows, _stored_type(rows.dtype, in_bytes), ["C_CONTIGUOUS", "WRITEABLE"]))


def _storage(rows: Rows) -> Rows | Tensor:
    """A tensor on the same memory where torch supports it, because it is faster to index; else the array itself."""
    plain = rows.dtype.isnative and rows.dtype.name in TORCH_TYPES
    if plain and _in_memory(rows) and rows.flags.writeable and min(rows.strides) >= 0:
        return torch.from_numpy(rows)
    return rows


def _inspect(rows: Rows, name: str, missing: Missing | None, training: bool) -> ArrayFacts:
    """The minimum, the maximum and a hash of the content, computed a few megabytes at a time."""
    digest = hashlib.sha256(f"{rows.dtype.str}{rows.shape}".encode())
    row_bytes = rows.dtype.itemsize * math.prod(rows.shape[1:])
    stride = max(1, CHUNK_BYTES // row_bytes)
    starts = range(0, len(rows), stride)
    minimum, maximum = np.inf, -np.inf
    empty = np.ones(rows.shape[1:], bool)  # dimensions without a value
    for start in track(starts, f"checking {name}", len(starts), long=len(rows) * row_bytes > PROGRESS_BAR_BYTES):
        chunk = np.ascontiguousarray(rows[start : start + stride])
        known = chunk
        if missing is not None:
            is_missing = np.isnan(chunk)
            empty &= is_missing.all(0)
            known = chunk[~is_missing]
        digest.update(chunk.data)
        if known.size:
            low, high = float(known.min()), float(known.max())
            if not (low >= -MAX_FLOAT32 and high <= MAX_FLOAT32):
                raise _not_finite(chunk, name, start, missing)
            minimum, maximum = min(minimum, low), max(maximum, high)
    if missing is not None and training and empty.any():
        raise DataError(
            f"{name}: every dimension must have a value in at least one item, but dimension "
            f"{int(empty.argmax())} has none. Drop it."
        )
    return ArrayFacts(minimum, maximum, digest.hexdigest())


def _not_finite(chunk: np.ndarray, name: str, start: int, missing: Missing | None) -> DataError:
    """The error that names the first item of a chunk with a number that is not finite."""
    bad = ~(np.abs(chunk) <= MAX_FLOAT32)
    if missing is not None:
        bad &= ~np.isnan(chunk)
    item = start + int(bad.reshape(len(chunk), -1).any(1).argmax())
    what = "a NaN, an infinity" if missing is None else "an infinity"
    maskable = missing is None and chunk.ndim < 4
    masked = f", or pass {passing('missing', 'mask')} to leave out NaNs" if maskable else ""
    return DataError(
        f"{name}: every number must be finite in single precision, but item {item} contains {what} or a number above "
        f"3e38. Drop such items or fill in the values{masked}."
    )


def _in_bytes(rows: Rows) -> Rows:
    """Integer pixels in memory as uint8; other rows unchanged."""
    return rows.astype(np.uint8, copy=False) if np.issubdtype(rows.dtype, np.integer) and _in_memory(rows) else rows
