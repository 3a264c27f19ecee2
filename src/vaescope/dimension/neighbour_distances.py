"""Distances from each distinct item to its nearest neighbours, the input of every estimate of the dimension."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import whole_number
from vaescope.codes import CodesLike, means_of
from vaescope.codes.arrays import as_tensor
from vaescope.errors import DataError
from vaescope.numerics.neighbours import Neighbours, distinct, nearest_distances

CHUNK_NUMBERS = 1 << 22
MAX_MAGNITUDE = 1e150  # squares of larger numbers overflow
# Types whose values float32 holds exactly.
FLOAT32_TYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.float16, torch.bfloat16, torch.float32)


@runtime_checkable
class ChunkedItems(Protocol):
    """Items that come in chunks, such as a data set."""

    @property
    def dimensions(self) -> int:
        """The number of values in one item."""

    def chunks(self, size: int, device: torch.device | str) -> Iterator[Float[Tensor, "chunk ..."]]:
        """All items in order, `size` items at a time."""


PointsLike: TypeAlias = CodesLike | ChunkedItems | Neighbours


def neighbours(x: PointsLike, k: int, device: torch.device | str | None = None) -> Neighbours:
    """Distances from each distinct item to its `k` nearest others.

    Args:
        x: An array of items x dimensions or of images, a `Representation`, whose means are taken, a data set, or the
            result of an earlier search, which is returned if it holds at least `k` neighbours of each item.
        k: The number of neighbours.
        device: Where to compute. Default: the device of `x`.
    """
    k = whole_number("k", k, 1)
    if isinstance(x, Neighbours):
        if x.k < k:
            raise DataError(f"x must hold at least {k} neighbours of each item, got {x.k}. Search with a larger k.")
        return x
    points = _points(x, device)
    kept = distinct(points)
    duplicates = len(points) - len(kept)
    if len(kept) == 1 < len(points):
        raise DataError(f"x must hold items that differ, but all {len(points)} are the same. Pass data that vary.")
    if len(kept) <= k:
        raise DataError(
            f"x must hold at least {k + 1} distinct items for {k} neighbours, got {len(kept)} and {duplicates} "
            "duplicates. Lower k or pass more items."
        )
    return Neighbours(nearest_distances(kept, k), duplicates)


def _points(x: CodesLike | ChunkedItems, device: torch.device | str | None) -> Float[Tensor, "items dimensions"]:
    """One row per item in float32 where that is exact, else in float64; an error names the first bad item."""
    if isinstance(x, ChunkedItems):
        size = max(1, CHUNK_NUMBERS // x.dimensions)
        tensor = torch.cat([chunk.flatten(1) for chunk in x.chunks(size, "cpu" if device is None else device)])
    else:
        tensor = as_tensor(means_of(x), "x")
    if tensor.ndim < 2 or tensor.numel() == 0:
        raise DataError(f"x must be items x dimensions or images, none empty, got the shape {tuple(tensor.shape)}.")
    tensor = tensor.to(device=device, dtype=torch.float32 if tensor.dtype in FLOAT32_TYPES else torch.float64)
    rows = tensor.reshape(len(tensor), -1)
    wrong = ~(rows.abs() <= MAX_MAGNITUDE).all(1)
    if bool(wrong.any()):
        item = int(wrong.nonzero()[0])
        raise DataError(f"x must hold finite numbers below {MAX_MAGNITUDE:g}, but item {item} does not. Drop it.")
    return rows
