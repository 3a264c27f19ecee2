"""Representations of the same items as checked, centred and scaled tables (Bonheme, eq. 7.7)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.codes import CodesLike, means_of
from vaescope.codes.arrays import ArrayLike, as_table, check_finite
from vaescope.errors import DataError
from vaescope.numerics.distributions import full_precision
from vaescope.numerics.linalg import rows_per_chunk


def activation_table(values: CodesLike, name: str) -> Float[Tensor, "items features"]:
    """A representation as a float tensor on its device, with at least two items and one feature."""
    return as_table(_shared(means_of(values)), name, columns="features", min_items=2, finite=False)


def _shared(values: ArrayLike) -> ArrayLike:
    """Memory maps as tensors that share their memory, also if they can only be read: tables are never written to."""
    if not isinstance(values, np.memmap) or values.dtype.str[1:] not in ("f2", "f4", "f8"):
        return values
    if not values.dtype.isnative or min(values.strides, default=0) < 0:
        return values
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(values)


def require_same_items(tables: Iterable[tuple[str, Tensor]]) -> None:
    """Raise an error unless all named tables have the same number of items."""
    (first, values), *others = tables
    for name, other in others:
        if len(other) != len(values):
            raise DataError(
                f"representations must be of the same items, {first} has {len(values)} and {name} has {len(other)}. "
                "Encode the same items with both."
            )


@dataclass(frozen=True)
class CentredTable:
    """A table with the offset and scale of its centred form, (table - first row - offset) / scale.

    The first row is subtracted first, in the precision of the table, so that a large offset costs no digits and a
    constant feature is exactly 0. The scale limits entries to 1, which changes no measure and keeps sums of
    squares within range.
    """

    table: Float[Tensor, "items features"]
    offset: Float[Tensor, "features"]
    scale: float

    @classmethod
    def of(
        cls, values: Float[Tensor, "items features"], name: str, dtype: torch.dtype, device: torch.device
    ) -> CentredTable:
        """Compute the offset and the scale in one pass; an error names a constant or non-finite representation."""
        width = values.shape[1]
        total = torch.zeros(width, dtype=torch.float64, device=device)
        ends = torch.zeros(2, dtype=torch.float64, device=device)
        chunk = rows_per_chunk(width)
        for start in range(0, len(values), chunk):
            rows = _from_first(values, slice(start, start + chunk), device)
            total += rows.sum(0, dtype=torch.float64)
            low, high = torch.aminmax(rows)  # of all columns together, which takes a tenth of the time
            ends = torch.stack([torch.minimum(ends[0], low.double()), torch.maximum(ends[1], high.double())])
        offset = total / len(values)
        scale = float(torch.maximum(ends[1] - offset.min(), offset.max() - ends[0]))
        if not math.isfinite(scale):
            check_finite(values, name, "features")
            raise DataError(
                f"{name} must hold numbers of a common range, got up to {float(values.abs().max()):g}. Rescale it."
            )
        if scale == 0:
            raise DataError(
                f"{name} must vary over the items, but all {len(values)} are equal; similarity compares how items "
                "differ. Leave it out."
            )
        return cls(values, offset.to(dtype), scale)

    def rows(self, part: slice = slice(None), columns: slice = slice(None)) -> Float[Tensor, "_ _"]:
        """Some items and features, centred and scaled. Default: all."""
        rows = _from_first(self.table[:, columns], part, self.offset.device).to(self.offset.dtype)
        return rows.sub_(self.offset[columns]).div_(self.scale)


def centred_tables(a: CodesLike, b: CodesLike) -> tuple[CentredTable, CentredTable]:
    """Two representations of the same items, checked, to be centred in float64 on the first one's device."""
    tables = _pair(a, b)
    device = tables["a"].device
    first, second = (CentredTable.of(values, name, torch.float64, device) for name, values in tables.items())
    return first, second


def centred_pair(a: CodesLike, b: CodesLike) -> tuple[Float[Tensor, "items features"], Float[Tensor, "items others"]]:
    """Two representations of the same items, checked and centred, in float64 on the first one's device."""
    first, second = centred_tables(a, b)
    return first.rows(), second.rows()


def finite_pair(a: CodesLike, b: CodesLike) -> tuple[Float[Tensor, "items features"], Float[Tensor, "items others"]]:
    """Two representations of the same items, checked, not centred, in float64 on the first one's device."""
    tables = _pair(a, b)
    for name, values in tables.items():
        check_finite(values, name, "features")
    first, second = (values.to(device=tables["a"].device, dtype=torch.float64) for values in tables.values())
    return first, second


def _pair(a: CodesLike, b: CodesLike) -> dict[str, Tensor]:
    tables = {"a": activation_table(a, "a"), "b": activation_table(b, "b")}
    require_same_items(tables.items())
    return tables


def _from_first(values: Tensor, part: slice, device: torch.device) -> Tensor:
    """Some rows minus the first row, in at least float32."""
    rows, first = (full_precision(some.to(device)) for some in (values[part], values[0]))
    return rows - first
