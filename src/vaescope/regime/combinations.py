"""Mean and sampled codes of the same items, checked, and the combinations of their types (Bonheme, section 6.4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.errors import DataError
from vaescope.numerics.polarised import ACTIVE, MIXED, PASSIVE, TYPES

FULL = "full"
MEAN, SAMPLED = "mean", "sampled"
REPRESENTATIONS = (MEAN, SAMPLED)
COMBINATIONS = ((ACTIVE,), (MIXED,), (PASSIVE,), (ACTIVE, MIXED), (ACTIVE, PASSIVE), (MIXED, PASSIVE))


def combinations(types: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The latents of the full representation and of each combination of types that all occur (section 6.4.4)."""
    groups = {FULL: tuple(range(len(types)))}
    for chosen in COMBINATIONS:
        if all(kind in types for kind in chosen):
            groups["+".join(chosen)] = tuple(place for place, kind in enumerate(types) if kind in chosen)
    return groups


def types_of(types: Any, latents: int) -> tuple[str, ...]:
    """The type of each latent, from a sequence or from a result that holds one as `types`."""
    given = getattr(types, "types", types)
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise DataError(f"types must be a sequence with a type for each latent, got {given!r}.")
    names = tuple(str(name) for name in given)
    if len(names) != latents:
        raise DataError(
            f"types must have one entry for each of {latents} latents, got {len(names)}. "
            "Find the types from the same codes."
        )
    for place, name in enumerate(names):
        if name not in TYPES:
            raise DataError(f"types must be of {', '.join(TYPES)}; got {name!r} for latent {place}.")
    return names


def tables_of(codes: Any) -> dict[str, Float[Tensor, "items latents"]]:
    """The mean and the sampled codes as tensors where they lie, checked; nothing is copied to float64."""
    pair = codes if isinstance(codes, tuple | list) else [getattr(codes, name, None) for name in ("mean", "sample")]
    # The mean of an array or a tensor is a method, not codes.
    if len(pair) != 2 or any(values is None or callable(values) for values in pair):
        raise DataError(
            "codes must be a Representation or a pair (mean, sample) of arrays, items x latents; "
            f"got {type(codes).__name__}. Encode the data first."
        )
    tables = {MEAN: _table(pair[0], "mean"), SAMPLED: _table(pair[1], "sample")}
    shapes = [tuple(table.shape) for table in tables.values()]
    if shapes[0] != shapes[1]:
        raise DataError(
            f"mean and sample must be of one shape, items x latents; got {shapes[0]} and {shapes[1]}. "
            "Encode the same items with the same model."
        )
    if len(tables[MEAN]) < 2:
        raise DataError(f"codes must hold at least 2 items to vary, got {len(tables[MEAN])}. Encode more items.")
    return tables


def _table(values: Any, name: str) -> Tensor:
    table = values.detach() if isinstance(values, Tensor) else _tensor(np.asarray(values), name)
    if table.is_complex() or table.dtype == torch.bool:
        raise DataError(f"{name} must hold real numbers, got type {table.dtype}; convert it to a float type.")
    table = table if table.is_floating_point() else table.to(torch.float64)
    if table.ndim != 2 or 0 in table.shape:
        raise DataError(f"{name} must be a table, items x latents, got the shape {tuple(table.shape)}.")
    bad = (~torch.isfinite(table)).nonzero()
    if len(bad):
        item, latent = bad[0].tolist()
        raise DataError(
            f"{name} must hold finite numbers, got {float(table[item, latent])} for item {item}, latent {latent}. "
            "Look for a model that diverged, or leave the item out."
        )
    return table


def _tensor(array: np.ndarray, name: str) -> Tensor:
    """The array as a tensor that shares its memory, unless torch has no such type, order or protection."""
    if array.dtype.kind not in "iuf":
        raise DataError(f"{name} must hold real numbers, got type {array.dtype}; convert it to a float type.")
    if array.dtype.kind != "f" or array.dtype.itemsize > 8 or not array.dtype.isnative:
        return torch.from_numpy(array.astype(np.float64))
    shared = array.flags.writeable and all(step >= 0 for step in array.strides)
    return torch.from_numpy(array if shared else array.copy())
