"""Mean and sampled codes of the same items, checked, and the combinations of their types (Bonheme, section 6.4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from torch import Tensor

from vaescope.codes.arrays import ArrayLike, as_table
from vaescope.errors import DataError
from vaescope.numerics.variable_type_names import ACTIVE, MIXED, PASSIVE, VARIABLE_TYPES

FULL = "full"
MEAN, SAMPLED = "mean", "sampled"
REPRESENTATIONS = (MEAN, SAMPLED)
COMBINATIONS = ((ACTIVE,), (MIXED,), (PASSIVE,), (ACTIVE, MIXED), (ACTIVE, PASSIVE), (MIXED, PASSIVE))


@runtime_checkable
class MeanAndSample(Protocol):
    """Codes with a mean and a sampled representation, items x latents, such as a `Representation`."""

    @property
    def mean(self) -> ArrayLike: ...

    @property
    def sample(self) -> ArrayLike: ...


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
        if name not in VARIABLE_TYPES:
            raise DataError(f"types must be of {', '.join(VARIABLE_TYPES)}; got {name!r} for latent {place}.")
    return names


def tables_of(codes: Any) -> dict[str, Float[Tensor, "items latents"]]:
    """The mean and the sampled codes as tensors where they lie, checked; nothing is copied to float64."""
    pair = (codes.mean, codes.sample) if isinstance(codes, MeanAndSample) else codes
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise DataError(
            "codes must be a Representation or a pair (mean, sample) of arrays, items x latents; "
            f"got {type(codes).__name__}. Encode the data first."
        )
    tables = {MEAN: as_table(pair[0], "mean"), SAMPLED: as_table(pair[1], "sample")}
    shapes = [tuple(table.shape) for table in tables.values()]
    if shapes[0] != shapes[1]:
        raise DataError(
            f"mean and sample must be of one shape, items x latents; got {shapes[0]} and {shapes[1]}. "
            "Encode the same items with the same model."
        )
    if len(tables[MEAN]) < 2:
        raise DataError(f"codes must hold at least 2 items to vary, got {len(tables[MEAN])}. Encode more items.")
    return tables
