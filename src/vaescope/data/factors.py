"""Names, sizes and codes of the factors that come with a data set."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from vaescope.codes.factors import codes_of
from vaescope.data.dataset import Factors
from vaescope.errors import DataError


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
