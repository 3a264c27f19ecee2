"""Array-likes of any library as checked arrays, tensors, tables of real numbers and class numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

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


def as_array(values: object, name: str, *, booleans: bool = False) -> Array:
    """Real numbers as a numpy array or a torch tensor; nothing is copied and memory maps stay mapped.

    Args:
        values: A tensor, an array of any library, or nested lists.
        name: The name of the values in error messages.
        booleans: Whether booleans count as numbers.
    """
    if isinstance(values, Tensor):
        array: Array = values.detach()
        real = not values.is_complex() and (booleans or values.dtype != torch.bool)
    elif isinstance(values, np.ma.MaskedArray):
        raise DataError(f"{name} must hold known numbers, got a masked array. Fill in or drop the masked values.")
    else:
        try:
            array = values if isinstance(values, np.memmap) else np.asarray(values)
        except ValueError as error:
            raise DataError(f"{name} must be a full table, got rows of different lengths.") from error
        real = array.dtype.kind in ("biuf" if booleans else "iuf")
    if not real:
        raise DataError(f"{name} must hold real numbers, got type {array.dtype}. Convert it to a float type.")
    return array


def as_numpy(values: object, name: str, *, booleans: bool = False) -> np.ndarray:
    """Real numbers as a numpy array on the CPU, of the type they came in; memory maps stay mapped."""
    array = as_array(values, name, booleans=booleans)
    if isinstance(array, Tensor):
        return (array.float() if array.dtype == torch.bfloat16 else array).cpu().numpy()
    return array


def as_tensor(values: object, name: str, *, booleans: bool = False) -> Tensor:
    """Real numbers as a tensor on the device they are on, sharing their memory where torch can."""
    array = as_array(values, name, booleans=booleans)
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
            f"{name} must be a table, items x {columns}, got the shape {tuple(table.shape)}. Pass one row per item."
        )
    if len(table) < min_items:
        raise DataError(f"{name} must hold at least {min_items} items, got {len(table)}. Pass more items.")
    if finite:
        check_finite(table, name, columns)
    return table


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
    numbers = as_numpy(values, f"{owner}: {what}", booleans=True)
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
