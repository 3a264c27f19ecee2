"""Codes of labels and factors: whole numbers from 0, one row for each item."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

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
