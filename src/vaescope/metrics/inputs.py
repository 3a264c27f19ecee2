"""Codes with the factors they were made from, checked: what metrics are computed on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int

from vaescope.codes import Representation
from vaescope.codes.arrays import ArrayLike, as_numpy, check_finite
from vaescope.errors import ConfigurationError, DataError
from vaescope.numerics.variable_type_names import PASSIVE, VARIABLE_TYPES
from vaescope.regime import variable_types
from vaescope.regime.combinations import types_of

LEARNED, TESTED = 10_000, 5_000  # items, as in disentanglement_lib


@dataclass(frozen=True)
class Labelled:
    """One row for each item, in float64.

    Attributes:
        codes: The representation, latents as columns.
        factors: The values of the factors; whole numbers from 0 without a gap in a discrete column.
        names: One for each factor.
        discrete: Whether the values of each factor are whole numbers.
        latents: The places that the columns of `codes` have in the whole representation.
        values: The factors as they were given, gaps between whole numbers and all.
    """

    codes: Float[np.ndarray, "items latents"]
    factors: Float[np.ndarray, "items factors"]
    names: tuple[str, ...]
    discrete: tuple[bool, ...]
    latents: tuple[int, ...]
    values: Float[np.ndarray, "items factors"]

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def classes(self) -> Int[np.ndarray, "items factors"]:
        """The factors as class numbers; an error that names the first that is continuous."""
        for name, discrete in zip(self.names, self.discrete, strict=True):
            if not discrete:
                raise DataError(
                    f"this metric needs factors of whole numbers, and {name!r} is continuous. Bin it, leave it out, or "
                    "use one that takes continuous factors: mig, sap, mcc, modularity, neighbours, irs."
                )
        return self.factors.astype(np.int64)

    def require_examples(self, least: int) -> None:
        """An error that names the first class with fewer examples."""
        for name, column in zip(self.names, self.classes.T, strict=True):
            counts = np.bincount(column)
            if counts.min() < least:
                raise DataError(
                    f"every class must have at least {least} examples to learn from and to test on, class "
                    f"{int(counts.argmin())} of {name!r} has {int(counts.min())}. Add some, or leave its items out."
                )

    def rows(self, index: Int[np.ndarray, "rows"]) -> Labelled:
        """Some of the items; classes that are gone leave no gap."""
        factors = [_without_gaps(column) if kind else column for column, kind in self._columns(index)]
        return replace(self, codes=self.codes[index], factors=np.column_stack(factors), values=self.values[index])

    def with_codes(self, codes: Float[np.ndarray, "items latents"]) -> Labelled:
        """The same factors under another representation."""
        return replace(self, codes=codes, latents=tuple(range(codes.shape[1])))

    def split(self, learned: int, tested: int, seed: int) -> tuple[Labelled, Labelled]:
        """Disjoint parts to learn from and to test on, drawn by the seed; both shrink alike where items are few.

        Classes keep their numbers in both.
        """
        share = min(1.0, len(self) / (learned + tested))
        first, both = int(learned * share), int((learned + tested) * share)
        order = np.random.default_rng(seed).permutation(len(self))
        return self._part(order[:first]), self._part(order[first:both])

    def _part(self, index: Int[np.ndarray, "rows"]) -> Labelled:
        return replace(self, codes=self.codes[index], factors=self.factors[index], values=self.values[index])

    def _columns(self, index: Int[np.ndarray, "rows"]) -> Any:
        return zip(self.factors[index].T, self.discrete, strict=True)


def labelled(
    codes: Any,
    factors: Any = None,
    *,
    names: Sequence[str] | None = None,
    exclude: str | None = None,
    types: Any = None,
) -> Labelled:
    """Codes, and factors or those of the `Representation` that vary, without the latents of the type `exclude`.

    `codes` is a `Representation`, whose means are taken, or an array. The types are the representation's, or `types`.
    """
    table = codes.mean if isinstance(codes, Representation) else codes
    if factors is None:
        factors, names = _own_factors(codes, names)
    array = _numbers("codes", table)
    values = _numbers("factors", factors)
    values = values[:, None] if values.ndim == 1 else values
    if array.ndim != 2 or values.ndim != 2 or len(array) != len(values):
        raise DataError(
            "codes and factors must be tables with one row for each item, got the shapes "
            f"{array.shape} and {values.shape}. Pass those of the same items, in one order."
        )
    if len(array) < 2 or 0 in array.shape or 0 in values.shape:
        raise DataError(
            f"a metric needs at least 2 items, a latent and a factor, got {array.shape} and {values.shape}."
        )
    titles = tuple(f"factor {place}" for place in range(values.shape[1])) if names is None else tuple(names)
    if len(titles) != values.shape[1]:
        raise DataError(f"there must be a name for each of {values.shape[1]} factors, got {len(titles)}: {titles}.")
    if len(set(titles)) < len(titles):
        raise DataError(f"every factor must have a name of its own, got {titles}.")
    _check_varying(values, titles)
    kept = _kept(codes, array.shape[1], exclude, types)
    discrete = tuple(bool((column == np.floor(column)).all()) for column in values.T)
    whole = [_without_gaps(column) if kind else column for column, kind in zip(values.T, discrete, strict=True)]
    return Labelled(np.ascontiguousarray(array[:, kept]), np.column_stack(whole), titles, discrete, kept, values)


def learned_and_tested(data: Labelled, seed: int) -> tuple[Labelled, Labelled]:
    """10,000 items to learn from and 5,000 to test on, or as many as there are in that proportion.

    An error where a class has a single example, or where chance left a single class to learn.
    """
    kept = np.flatnonzero(data.discrete)
    names = tuple(data.names[place] for place in kept)
    factors, values = data.factors[:, kept], data.values[:, kept]
    whole = replace(data, names=names, discrete=(True,) * len(kept), factors=factors, values=values)
    whole.require_examples(2)
    learned, tested = whole.split(LEARNED, TESTED, seed)
    for name, column in zip(names, learned.factors.T, strict=True):
        if len(tested) == 0 or len(np.unique(column)) < 2:
            raise DataError(
                f"there must be 2 classes of {name!r} to learn from, and items to test on, got {len(data)} items in "
                "all. Pass more."
            )
    return learned, tested


def has_factors(codes: Representation) -> bool:
    """Whether a representation comes with factors or labels that vary."""
    tables = [table for table in (codes.factors, codes.labels) if table is not None]
    return bool(tables) and bool((tables[0] != tables[0][0]).any())


def _own_factors(codes: Any, names: Sequence[str] | None) -> tuple[np.ndarray, Sequence[str] | None]:
    """The factors of a representation that vary, or its labels."""
    own = codes if isinstance(codes, Representation) else None
    if own is not None and own.factors is None and own.labels is not None:
        return own.labels.numpy(), ("label",) if names is None else names
    if own is None or own.factors is None:
        raise DataError("a metric compares codes with factors, and these have none. Pass factors.")
    table = own.factors.numpy()
    varying = np.flatnonzero((table != table[0]).any(0))
    titles = [f"factor {place}" for place in range(table.shape[1])] if names is None else list(names)
    if len(titles) != table.shape[1]:
        raise DataError(f"there must be a name for each of {table.shape[1]} factors, got {len(titles)}: {titles}.")
    return table[:, varying], [titles[place] for place in varying]


def _kept(codes: Any, latents: int, exclude: str | None, types: Any) -> tuple[int, ...]:
    if exclude is None:
        return tuple(range(latents))
    if exclude not in VARIABLE_TYPES:
        raise ConfigurationError(f"exclude must be one of {', '.join(VARIABLE_TYPES)}, got {exclude!r}.")
    if types is None and not isinstance(codes, Representation):
        raise ConfigurationError(
            f"to exclude {exclude} latents their types must be known. Pass a Representation, or their types as types."
        )
    found = types_of(variable_types(codes) if types is None else types, latents)
    kept = tuple(place for place, kind in enumerate(found) if kind != exclude)
    if not kept:
        advice = "The model has collapsed" if exclude == PASSIVE else "Exclude another type"
        raise DataError(f"without its {exclude} latents the representation has none left. {advice}.")
    return kept


def _numbers(name: str, values: ArrayLike) -> np.ndarray:
    numbers = as_numpy(values, name, booleans=True).astype(np.float64)
    check_finite(torch.from_numpy(numbers), name, "columns")
    return numbers


def _check_varying(values: np.ndarray, names: tuple[str, ...]) -> None:
    for name, column in zip(names, values.T, strict=True):
        if (column == column[0]).all():
            raise DataError(f"every factor must vary, {name!r} is {column[0]:g} for all items. Leave it out.")


def _without_gaps(column: np.ndarray) -> np.ndarray:
    return np.unique(column, return_inverse=True)[1].astype(np.float64)
