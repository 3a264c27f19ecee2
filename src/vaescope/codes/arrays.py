"""Array-likes of any library as checked arrays, tensors, tables of real numbers and class numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.errors import DataError

ArrayLike: TypeAlias = npt.ArrayLike | Tensor
Array: TypeAlias = np.ndarray | Tensor

# Types that numpy and torch share; arrays of other types are converted.
TORCH_TYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


@runtime_checkable
class HasToArray(Protocol):
    """A sparse matrix, such as those of scipy."""

    def toarray(self) -> np.ndarray:
        """All numbers, zeros included."""


@runtime_checkable
class DataFrame(Protocol):
    """A table whose columns have names, such as those of pandas and polars."""

    @property
    def columns(self) -> Iterable[object]:
        """The name of each column."""


def as_array(values: object, name: str) -> Array:
    """Real numbers or booleans as a numpy array or a torch tensor; nothing is copied and memory maps stay mapped.

    Args:
        values: A tensor, an array or data frame of any library, or nested lists.
        name: The name of the values in error messages.
    """
    if isinstance(values, Tensor):
        return _dense(values, name)
    parts = values if isinstance(values, list | tuple) else [values]
    if any(isinstance(part, np.ma.MaskedArray) for part in parts):
        raise DataError(f"{name} must hold known numbers, got a masked array. Fill in or drop the masked values.")
    if isinstance(values, HasToArray):
        raise DataError(f"{name} must be a dense array, got a {type(values).__name__}. Pass its toarray().")
    try:
        array = values if isinstance(values, np.memmap) else np.asarray(values)
        if array.dtype == object:  # numbers in a nullable column, or in a list of lists that was made an array
            array = np.asarray(array.tolist())
    except (ValueError, TypeError, RuntimeError) as error:
        reason = str(error).rstrip(".")
        raise DataError(
            f"{name} must be a full table, with rows of equal lengths, but numpy cannot read it: {reason}."
        ) from error
    if array.dtype.kind not in "biuf":
        got = f"type {array.dtype}" if array.dtype != object or array.ndim else type(values).__name__
        raise DataError(f"{name} must hold real numbers, got {got}. Pass an array of numbers.")
    return array


def _dense(values: Tensor, name: str) -> Tensor:
    """The tensor without its gradient, or an error if its numbers are complex or not all in memory."""
    if values.layout is not torch.strided or values.is_nested or values.is_meta:
        kind = "nested" if values.is_nested else "meta" if values.is_meta else "sparse"
        raise DataError(f"{name} must be a dense tensor that holds its numbers, got a {kind} one. Pass a dense copy.")
    if values.is_complex() or values.is_quantized:
        raise DataError(f"{name} must hold real numbers, got type {values.dtype}. Convert it to a float type.")
    # Torch has no arithmetic for 8-bit floats.
    return (values.float() if values.is_floating_point() and values.itemsize == 1 else values).detach()


def column_names(values: object) -> tuple[str, ...] | None:
    """The names of the columns of a data frame; None for other values."""
    return tuple(map(str, values.columns)) if isinstance(values, DataFrame) else None


def as_numpy(values: object, name: str) -> np.ndarray:
    """Real numbers as a numpy array on the CPU, in their original type; memory maps stay mapped."""
    array = as_array(values, name)
    if isinstance(array, Tensor):
        known = not array.is_floating_point() or str(array.dtype).removeprefix("torch.") in TORCH_TYPES
        return (array if known else array.float()).cpu().numpy()
    return array


def as_tensor(values: object, name: str) -> Tensor:
    """Real numbers as a tensor on the device they are on, sharing their memory where torch can."""
    array = as_array(values, name)
    if isinstance(array, Tensor):
        return array
    if array.dtype.newbyteorder("=").name not in TORCH_TYPES:
        array = array.astype(np.float32 if np.can_cast(array.dtype, np.float32) else np.float64)
    # Torch cannot hold foreign byte orders, negative strides or read-only memory.
    shared = array.dtype.isnative and array.flags.writeable and all(step >= 0 for step in array.strides)
    return torch.from_numpy(array if shared else array.astype(array.dtype.newbyteorder("="), order="C"))


def as_table(
    values: object, name: str, *, columns: str = "latents", min_items: int = 1, finite: bool = True
) -> Float[Tensor, "items columns"]:
    """A checked table of real numbers: a float tensor on the device the values are on, one row per item.

    Args:
        values: A tensor, an array of any library, or nested lists; integers become float64.
        name: The name of the table in error messages.
        columns: What the columns are, for error messages: "latents", "features", ...
        min_items: The smallest number of rows.
        finite: Whether to refuse NaN and infinities.
    """
    table = as_tensor(values, name)
    table = table if table.is_floating_point() else table.double()
    if table.ndim != 2 or 0 in table.shape:
        raise DataError(
            f"{name} must be a table, items x {columns}, got the shape {tuple(table.shape)}. "
            + ("Reshape it to items x 1." if table.ndim == 1 else "Pass one row per item.")
        )
    if len(table) < min_items:
        raise DataError(f"{name} must hold at least {min_items} items, got {len(table)}. Pass more items.")
    if finite:
        check_finite(table, name, columns)
    return table


def channel_rows(values: Float[Tensor, "items channels *positions"]) -> Float[Tensor, "rows channels"]:
    """Spatial codes as one row per position: those of the first item, then those of the second, and so on."""
    return values.flatten(2).transpose(1, 2).reshape(-1, values.shape[1])


def check_finite(values: Tensor, name: str, columns: str = "latents", numbers: Sequence[int] | None = None) -> None:
    """Raise a `DataError` that names the first item and column with a NaN or an infinity."""
    if values.numel() and not bool(torch.isfinite(torch.stack(torch.aminmax(values))).all()):
        place, value = first_where(~torch.isfinite(values), values, columns, numbers)
        raise DataError(
            f"{name} must be finite, got {value:g} for {place}. Check whether the model diverged, or drop the item."
        )


def first_where(
    mask: Tensor, values: Tensor, columns: str = "latents", numbers: Sequence[int] | None = None
) -> tuple[str, float]:
    """The place and the value of the first entry in the mask.

    `numbers` are the numbers of the items (default: from 0); an empty sequence stands for a row that all items share.
    """
    where = mask.nonzero()[0].tolist()
    items = range(len(values)) if numbers is None else numbers
    names = [f"item {items[where[0]]}"] if items else []
    names += [f"{columns.removesuffix('s')} {column}" for column in where[1:]]
    return ", ".join(names), float(values[tuple(where)])


def class_numbers(
    values: object, items: int, owner: str, what: str, ranks: tuple[int, ...]
) -> Int[np.ndarray, "items *factors"]:
    """Labels or factors as int64.

    Args:
        values: Whole numbers from 0, one row per item.
        items: The number of items.
        owner: The name of the data set or codes in error messages.
        what: "labels" or "factors", for error messages.
        ranks: The allowed numbers of dimensions.
    """
    numbers = as_numpy(values, f"{owner}: {what}")
    if numbers.ndim not in ranks or len(numbers) != items or numbers.size == 0:
        raise DataError(
            f"{owner}: {what} must have one row for each of the {items} items, got shape {numbers.shape}. "
            "Pass them in the order of the items."
        )
    numbers = numbers.astype(np.uint8) if numbers.dtype == bool else numbers
    good = (numbers >= 0) & (numbers < 2**53) & (numbers == np.floor(numbers))
    if not good.all():
        item = tuple(np.argwhere(~good)[0])
        raise DataError(
            f"{owner}: {what} must be whole numbers from 0, got {numbers[item]:g} for item {item[0]}. "
            "Number the values 0, 1, 2, ..., or bin them."
        )
    return numbers.astype(np.int64)
