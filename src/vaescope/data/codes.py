"""Codes of labels and factors: whole numbers from 0, one row for each item."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from vaescope.data.dataset import Factors
from vaescope.errors import DataError


def codes_of(values: Any, items: int, name: str, what: str, *ranks: int) -> np.ndarray:
    """Class numbers or factor codes as int64; `ranks` are the numbers of dimensions they may have."""
    codes = np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)
    if codes.ndim not in ranks or len(codes) != items or codes.size == 0:
        raise DataError(
            f"{name}: {what} must have one row for each of the {items} items, got shape {codes.shape}. "
            "Pass them in the order of the items."
        )
    if codes.dtype.kind not in "biuf":
        raise DataError(f"{name}: {what} must be numbers, got type {codes.dtype}. Number them from 0.")
    codes = codes.astype(np.uint8) if codes.dtype == bool else codes
    good = (codes >= 0) & (codes < 2**53) & (codes == np.floor(codes))
    if not good.all():
        item = tuple(np.argwhere(~good)[0])
        raise DataError(
            f"{name}: {what} must be whole numbers from 0, got {codes[item]:g} for item {item[0]}. "
            "Number the values 0, 1, 2, ..., or bin them."
        )
    return codes.astype(np.int64)


def factor_table_of(
    factors: Any, names: tuple[str, ...] | None, items: int, name: str
) -> tuple[Factors | None, Int[Tensor, "items factors"] | None]:
    """Names and sizes of the factors, and their codes as int16 where they fit; None for both without factors."""
    if factors is None:
        return None, None
    codes = codes_of(factors, items, name, "factors", 1, 2).reshape(items, -1)
    names = names or tuple(f"factor {column}" for column in range(codes.shape[1]))
    if len(names) != codes.shape[1]:
        raise DataError(
            f"{name}: there must be a name for each of {codes.shape[1]} factors, got {len(names)}: {names}. "
            "Pass as many factor_names as factors has columns."
        )
    sizes = tuple(int(largest) + 1 for largest in codes.max(0))
    kind = torch.int16 if max(sizes) <= torch.iinfo(torch.int16).max else torch.int64
    return Factors(tuple(names), sizes), torch.from_numpy(codes).to(kind)


def whole_label(value: Any, name: str, position: int) -> int:
    """The class number of one item of a torch Dataset."""
    number = np.asarray(value)
    if number.size != 1 or not np.issubdtype(number.dtype, np.integer):
        raise DataError(
            f"{name}: a label must be one whole number, got {value!r} for item {position}. "
            "Return (item, class number) or the item alone."
        )
    return int(number.reshape(()))
