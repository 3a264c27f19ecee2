"""Checked codes and factors: what metrics are computed on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.codes import Representation
from vaescope.codes.arrays import ArrayLike, as_numpy, check_finite
from vaescope.errors import ConfigurationError, DataError
from vaescope.numerics.variable_type_names import PASSIVE, VARIABLE_TYPES
from vaescope.regime.variable_types import TypesLike, checked_types, variable_types

TRAIN_ITEMS, TEST_ITEMS = 10_000, 5_000  # as in disentanglement_lib

CodesLike: TypeAlias = Representation | ArrayLike
FactorsLike: TypeAlias = ArrayLike | None


@dataclass(frozen=True)
class MetricInputs:
    """One row for each item, in float64.

    Attributes:
        codes: The representation, with latents as columns.
        factors: The values of the factors; in a discrete column whole numbers from 0 without gaps.
        names: The name of each factor.
        discrete: Whether the values of each factor are whole numbers.
        latents: The indices of the columns of `codes` in the whole representation.
        values: The factors as they were given, before gaps between whole numbers were closed.
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
        """The factors as class numbers; raises an error that names the first continuous factor."""
        for name, discrete in zip(self.names, self.discrete, strict=True):
            if not discrete:
                raise DataError(
                    f"this metric needs factors of whole numbers, and {name!r} is continuous. Bin it, leave it out, or "
                    "use a metric of continuous factors: mig, sap, mcc, modularity, neighbours, irs."
                )
        return self.factors.astype(np.int64)

    def require_examples(self, least: int) -> None:
        """Raise an error that names the first class with fewer examples."""
        for name, column in zip(self.names, self.classes.T, strict=True):
            counts = np.bincount(column)
            if counts.min() < least:
                raise DataError(
                    f"every class must have at least {least} examples, class {int(counts.argmin())} of {name!r} has "
                    f"{int(counts.min())}. Add some, or leave its items out."
                )

    def require_several_factors(self) -> None:
        """Raise an error if there is only one factor."""
        if len(self.names) < 2:
            raise DataError(f"this metric compares factors: it needs at least 2, got only {self.names[0]!r}.")

    def part(self, index: Int[np.ndarray, "rows"] | slice) -> MetricInputs:
        """Some of the items; classes keep their numbers."""
        return replace(self, codes=self.codes[index], factors=self.factors[index], values=self.values[index])

    def rows(self, index: Int[np.ndarray, "rows"]) -> MetricInputs:
        """Some of the items; classes that are left are numbered without gaps."""
        part = self.part(index)
        return replace(part, factors=_close_gaps(part.factors, self.discrete))

    def split(self, train: int, test: int, seed: int) -> tuple[MetricInputs, MetricInputs]:
        """Disjoint random parts to learn from and to test on, smaller in proportion if there are fewer items."""
        share = min(1.0, len(self) / (train + test))
        first, both = int(train * share), int((train + test) * share)
        order = np.random.default_rng(seed).permutation(len(self))
        return self.part(order[:first]), self.part(order[first:both])


def means_of(codes: CodesLike) -> ArrayLike:
    """The means of a `Representation`, or the codes as they are."""
    return codes.mean if isinstance(codes, Representation) else codes


def metric_inputs(
    codes: CodesLike,
    factors: FactorsLike = None,
    *,
    names: Sequence[str] | None = None,
    exclude: str | None = None,
    types: TypesLike | None = None,
) -> MetricInputs:
    """Check codes and factors.

    Args:
        codes: A `Representation`, whose means are taken, or an array, items x latents.
        factors: One column for each factor. Default: those of the `Representation` that vary, or its labels.
        names: The name of each factor. Default: 'factor 0', 'factor 1', ...
        exclude: Leave out the latents of this type.
        types: The types of the latents. Default: found from the `Representation`.
    """
    if factors is None:
        factors, names = _own_factors(codes, names)
    array = _numbers("codes", means_of(codes))
    values = _numbers("factors", factors)
    values = values[:, None] if values.ndim == 1 else values
    if array.ndim != 2 or values.ndim != 2 or len(array) != len(values):
        raise DataError(
            "codes and factors must be tables with one row for each item, got the shapes "
            f"{array.shape} and {values.shape}. Pass those of the same items, in the same order."
        )
    if len(array) < 2 or 0 in array.shape or 0 in values.shape:
        raise DataError(
            f"a metric needs at least 2 items, a latent and a factor, got {array.shape} and {values.shape}."
        )
    titles = _titles(names, values.shape[1])
    if len(set(titles)) < len(titles):
        raise DataError(f"names of factors must differ, got {titles}.")
    for name, column in zip(titles, values.T, strict=True):
        if (column == column[0]).all():
            raise DataError(f"every factor must vary, {name!r} is {column[0]:g} for all items. Leave it out.")
    kept = _kept_latents(codes, array.shape[1], exclude, types)
    discrete = tuple(bool((column == np.floor(column)).all()) for column in values.T)
    return MetricInputs(
        np.ascontiguousarray(array[:, kept]), _close_gaps(values, discrete), titles, discrete, kept, values
    )


def learnable_split(data: MetricInputs, train: int, test: int, seed: int) -> tuple[MetricInputs, MetricInputs]:
    """`MetricInputs.split`, or an error if there is nothing to test on or only one class of a factor to learn."""
    first, second = data.split(train, test, seed)
    for name, column in zip(data.names, first.factors.T, strict=True):
        if len(second) == 0 or len(np.unique(column)) < 2:
            raise DataError(
                f"there must be items to test on and two classes of {name!r} to learn, got {len(second)} and the "
                f"classes {np.unique(column).astype(int).tolist()} among {len(first)}, of {len(data)} items in all. "
                "Pass more items."
            )
    return first, second


def train_test_split(data: MetricInputs, seed: int) -> tuple[MetricInputs, MetricInputs]:
    """10,000 items to learn from and 5,000 to test on, or fewer in this proportion, with the discrete factors alone.

    Raises an error if a class has a single example, or if only one class is left to learn.
    """
    kept = np.flatnonzero(data.discrete)
    names = tuple(data.names[place] for place in kept)
    factors, values = data.factors[:, kept], data.values[:, kept]
    whole = replace(data, names=names, discrete=(True,) * len(kept), factors=factors, values=values)
    whole.require_examples(2)
    return learnable_split(whole, TRAIN_ITEMS, TEST_ITEMS, seed)


def count_varying(factors: Tensor | None, labels: Tensor | None) -> int:
    """The number of factors that vary, or without factors 1 if the labels vary."""
    table = labels if factors is None else factors
    return 0 if table is None else int((table.reshape(len(table), -1) != table[0]).any(0).sum())


def _own_factors(
    codes: CodesLike, names: Sequence[str] | None
) -> tuple[Int[np.ndarray, "items *factors"], Sequence[str] | None]:
    """The factors of a representation that vary, or its labels."""
    factors, labels = (codes.factors, codes.labels) if isinstance(codes, Representation) else (None, None)
    if factors is None and labels is None:
        raise DataError("a metric compares codes with factors, got codes alone. Pass factors.")
    if factors is None:
        return np.asarray(labels), ("label",) if names is None else names
    table = factors.numpy()
    varying = np.flatnonzero((table != table[0]).any(0))
    titles = _titles(names, table.shape[1])
    return table[:, varying], [titles[place] for place in varying]


def _titles(names: Sequence[str] | None, factors: int) -> tuple[str, ...]:
    titles = tuple(f"factor {place}" for place in range(factors)) if names is None else tuple(names)
    if len(titles) != factors:
        raise DataError(f"there must be a name for each of {factors} factors, got {len(titles)}: {titles}.")
    return titles


def _kept_latents(codes: CodesLike, latents: int, exclude: str | None, types: TypesLike | None) -> tuple[int, ...]:
    if exclude is None:
        return tuple(range(latents))
    if exclude not in VARIABLE_TYPES:
        raise ConfigurationError(f"exclude must be one of {', '.join(VARIABLE_TYPES)}, got {exclude!r}.")
    if types is None:
        if not isinstance(codes, Representation):
            raise ConfigurationError(
                f"to exclude {exclude} latents their types must be known. Pass a Representation, or their types."
            )
        types = variable_types(codes)
    kept = tuple(place for place, kind in enumerate(checked_types(types, latents)) if kind != exclude)
    if not kept:
        advice = "The model has collapsed" if exclude == PASSIVE else "Exclude another type"
        raise DataError(f"all latents are {exclude}, so that none is left. {advice}.")
    return kept


def _numbers(name: str, values: ArrayLike) -> Float[np.ndarray, "..."]:
    numbers = as_numpy(values, name, booleans=True).astype(np.float64)
    check_finite(torch.from_numpy(numbers), name, "columns")
    return numbers


def _close_gaps(
    values: Float[np.ndarray, "items factors"], discrete: Iterable[bool]
) -> Float[np.ndarray, "items factors"]:
    """Number the values of discrete columns from 0 without gaps."""
    return np.column_stack(
        [
            np.unique(column, return_inverse=True)[1].astype(np.float64) if kind else column
            for column, kind in zip(values.T, discrete, strict=True)
        ]
    )
