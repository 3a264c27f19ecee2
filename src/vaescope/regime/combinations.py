"""Mean and sampled codes of the same items, and combinations of variable types (Bonheme, section 6.4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias, runtime_checkable

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


SampledCodes: TypeAlias = MeanAndSample | tuple[ArrayLike, ArrayLike]


@runtime_checkable
class HasTypes(Protocol):
    """A result with the type of each latent, such as `VariableTypes`."""

    @property
    def types(self) -> Sequence[str]: ...


TypesLike: TypeAlias = HasTypes | Sequence[str] | np.ndarray


def combinations(types: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The latents of the full representation and of each combination of types that occur (section 6.4.4)."""
    groups = {FULL: tuple(range(len(types)))}
    for chosen in COMBINATIONS:
        if all(kind in types for kind in chosen):
            groups["+".join(chosen)] = tuple(place for place, kind in enumerate(types) if kind in chosen)
    return groups


def checked_types(types: TypesLike, latents: int) -> tuple[str, ...]:
    """The type of each latent, from a sequence or from a result such as `VariableTypes`."""
    given: object = types.types if isinstance(types, HasTypes) else types
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise DataError(f"types must be a sequence with one type per latent, got {given!r}.")
    names = tuple(str(name) for name in given)
    if len(names) != latents:
        raise DataError(
            f"types must have one entry for each of {latents} latents, got {len(names)}. "
            "Compute the types from the same codes."
        )
    for place, name in enumerate(names):
        if name not in VARIABLE_TYPES:
            raise DataError(f"types must be one of {', '.join(VARIABLE_TYPES)}; got {name!r} for latent {place}.")
    return names


def mean_and_sample_tables(codes: SampledCodes) -> dict[str, Float[Tensor, "items latents"]]:
    """The mean and the sampled codes as checked tensors on the devices they are on, in the types they came in."""
    pair = (codes.mean, codes.sample) if isinstance(codes, MeanAndSample) else codes
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise DataError(
            "codes must be a Representation or a pair (mean, sample) of arrays, items x latents; "
            f"got {type(codes).__name__}. Encode the data first."
        )
    tables = {MEAN: as_table(pair[0], "mean", min_items=2), SAMPLED: as_table(pair[1], "sample", min_items=2)}
    shapes = [tuple(table.shape) for table in tables.values()]
    if shapes[0] != shapes[1]:
        raise DataError(
            f"mean and sample must be of one shape, items x latents; got {shapes[0]} and {shapes[1]}. "
            "Encode the same items with the same model."
        )
    return tables
