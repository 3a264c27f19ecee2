"""What a dimension is measured on: items as rows, each once, and the distances to their nearest neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import whole_number
from vaescope.data import Dataset
from vaescope.errors import DataError
from vaescope.numerics.neighbours import Neighbours, distinct, nearest_distances

CHUNK_NUMBERS = 1 << 22
LARGEST = 1e150  # squares of larger numbers overflow
NARROW = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.float16, torch.bfloat16, torch.float32)


def neighbours(x: Any, k: int, device: torch.device | str | None = None) -> Neighbours:
    """Distances of each distinct item to its `k` nearest others, on `device` or where `x` lies.

    What this function returned comes back as it is if it holds at least `k` neighbours of each item.
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
        raise DataError(
            f"x must hold items that differ, but all {len(points)} are the same, so that they have no dimension. "
            "Pass data that vary."
        )
    if len(kept) <= k:
        raise DataError(
            f"x must hold at least {k + 1} distinct items for {k} neighbours, got {len(kept)} and {duplicates} "
            "duplicates. Lower k or pass more items."
        )
    return Neighbours(nearest_distances(kept, k), duplicates)


def _points(x: Any, device: torch.device | str | None) -> Float[Tensor, "items dimensions"]:
    """The items as rows, in float32 where that loses nothing, else in float64; all finite."""
    if isinstance(x, Dataset):
        size = max(1, CHUNK_NUMBERS // x.dimensions)
        tensor = torch.cat([chunk.flatten(1) for chunk in x.chunks(size, "cpu" if device is None else device)])
    elif isinstance(x, Tensor) and not x.is_complex():
        tensor = x.detach()
    elif isinstance(x, np.ndarray) and x.dtype.kind in "biuf":
        kind = np.float32 if np.can_cast(x.dtype, np.float32) else np.float64
        tensor = torch.from_numpy(np.array(x, dtype=kind, order="C"))
    else:
        got = f"type {x.dtype}" if isinstance(x, np.ndarray | Tensor) else type(x).__name__
        raise DataError(f"x must be a numpy array, a torch tensor or a Dataset of real numbers, got {got}.")
    if tensor.ndim < 2 or tensor.numel() == 0:
        raise DataError(f"x must be items x dimensions or images, none empty, got the shape {tuple(tensor.shape)}.")
    tensor = tensor.to(device=device, dtype=torch.float32 if tensor.dtype in NARROW else torch.float64)
    rows = tensor.reshape(len(tensor), -1)
    wrong = ~(rows.abs() <= LARGEST).all(1)
    if bool(wrong.any()):
        item = int(wrong.nonzero()[0])
        raise DataError(f"x must hold finite numbers below {LARGEST:g}, but item {item} does not; leave it out.")
    return rows
