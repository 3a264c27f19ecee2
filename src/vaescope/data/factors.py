"""Factors and labels that come with the items of a data set, checked and numbered."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from vaescope.codes.arrays import ArrayLike
from vaescope.codes.factors import class_numbers
from vaescope.data.dataset import Factors
from vaescope.errors import DataError


def factor_table_of(
    factors: ArrayLike | None, names: tuple[str, ...] | None, items: int, name: str
) -> tuple[Factors | None, Int[Tensor, "items factors"] | None]:
    """Names and sizes of the factors, and their codes, as int16 where they fit; (None, None) without factors."""
    if factors is None:
        return None, None
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


def class_number(value: object, name: str, position: int) -> int:
    """The label of one item of a torch Dataset as an int."""
    number = np.asarray(value)
    if number.size != 1 or not np.issubdtype(number.dtype, np.integer):
        raise DataError(
            f"{name}: a label must be an integer, got {value!r} for item {position}. "
            "Return (item, class number), or the item alone."
        )
    return int(number.reshape(()))
