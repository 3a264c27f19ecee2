"""Labels and factors of items as class numbers: whole numbers from 0, one row per item."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from vaescope.codes.arrays import as_numpy
from vaescope.errors import DataError


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
