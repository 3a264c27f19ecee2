"""Checked codes and factors: what metrics are computed on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias, TypedDict

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from vaescope.codes import CodesLike, Representation, means_of
from vaescope.codes.arrays import ArrayLike, as_numpy, as_table, check_finite, column_names
from vaescope.errors import ConfigurationError, DataError, unknown_name
from vaescope.metrics.factor_types import FactorChoice, discrete_factors, warn_of_unlikely_types
from vaescope.numerics.variable_type_names import PASSIVE, VARIABLE_TYPES
from vaescope.regime.variable_types import TypesLike, checked_types, variable_types

TRAIN_ITEMS, TEST_ITEMS = 10_000, 5_000  # as in disentanglement_lib
MIN_EXAMPLES = 2  # of a class: one to learn from and one to test on
DROP, MERGE = "drop", "merge"
FACTORS = "factors"  # their name in messages, unless a metric compares with something else
BLOCK_NUMBERS = 1 << 21  # of the codes that are copied at a time

FactorsLike: TypeAlias = ArrayLike | None


class InputOptions(TypedDict, total=False):
    """The keywords that say what a metric is computed on.

    Attributes:
        names: Names of the factors. Default: those of the `Representation`, the columns of a data frame, or
            'factor 0', 'factor 1', ...
        discrete: Factors, by name or number, whose values are classes although they are not whole numbers; True for
            all. Default: factors of whole numbers.
        continuous: Factors, by name or number, that are continuous although their values are whole numbers; True for
            all.
        rare: What to do with classes of a single item: 'drop' the item, or 'merge' such classes of a factor, a single
            one with the next rarest class. The parts `rare_classes` and `rare_items` count them. Default: metrics that
            need 2 examples of each class raise an error.
        exclude: Leave out the latents of this type: 'passive', 'mixed' or 'active'.
        types: The types of the latents. Default: found from a `Representation`.
    """

    names: Sequence[str] | None
    discrete: FactorChoice
    continuous: FactorChoice
    rare: str | None
    exclude: str | None
    types: TypesLike | None


@dataclass(frozen=True)
class MetricInputs:
    """One row for each item, in float64.

    Attributes:
        codes: The representation, with latents as columns; in the type and the memory map that it came in, since it may
            be large. Metrics copy parts of it.
        factors: The values of the factors; in a discrete column whole numbers from 0 without gaps.
        names: The name of each factor.
        discrete: Whether the values of each factor are classes.
        latents: The indices of the columns of `codes` in the whole representation.
        values: The factors as they were given, before classes were numbered.
        rare: What happens to classes of a single item: 'drop', 'merge' or None.
        rare_classes, rare_items: The numbers of classes and items that were dropped or merged.
    """

    codes: Real[np.ndarray, "items latents"]
    factors: Float[np.ndarray, "items factors"]
    names: tuple[str, ...]
    discrete: tuple[bool, ...]
    latents: tuple[int, ...]
    values: Float[np.ndarray, "items factors"]
    rare: str | None = None
    rare_classes: int = 0
    rare_items: int = 0

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def classes(self) -> Int[np.ndarray, "items factors"]:
        """The factors as class numbers; raises an error that names the first continuous factor."""
        for name, discrete in zip(self.names, self.discrete, strict=True):
            if not discrete:
                raise DataError(
                    f"this metric needs classes, and {name!r} is continuous. Pass discrete={[name]!r} if each of its "
                    "values is a class, bin it, leave it out, or use a metric of continuous factors: mig, sap, mcc, "
                    "modularity, neighbours, irs."
                )
        return self.factors.astype(np.int64)

    def require_examples(self, least: int) -> None:
        """Raise an error that names the first class with fewer examples."""
        for place, (name, column) in enumerate(zip(self.names, self.classes.T, strict=True)):
            counts = np.bincount(column)
            if counts.min() < least:
                value = self.values[column == counts.argmin(), place][0]
                raise DataError(
                    f"every class must have at least {least} examples, class {value:.10g} of {name!r} has "
                    f"{int(counts.min())}. Pass rare='drop' or rare='merge', or add examples."
                )

    def require_several_factors(self) -> None:
        """Raise an error if there is only one factor."""
        if len(self.names) < 2:
            raise DataError(f"this metric compares factors: it needs at least 2, got only {self.names[0]!r}.")

    def part(self, index: Int[np.ndarray, "rows"] | slice) -> MetricInputs:
        """Some of the items, their codes in float64; classes keep their numbers."""
        codes = np.ascontiguousarray(self.codes[index], dtype=np.float64)
        return replace(self, codes=codes, factors=self.factors[index], values=self.values[index])

    def latent_blocks(self) -> Iterator[tuple[slice, Float[np.ndarray, "items some"]]]:
        """The codes in float64, some latents at a time; no block but the only one has a single latent."""
        latents = self.codes.shape[1]
        size = max(2, BLOCK_NUMBERS // len(self))
        for block in np.array_split(np.arange(latents), max(1, latents // size)):
            part = slice(int(block[0]), int(block[-1]) + 1)
            yield part, np.array(self.codes[:, part], dtype=np.float64, order="F")

    def item_blocks(self) -> Iterator[Float[np.ndarray, "some latents"]]:
        """The codes in float64, some items at a time."""
        size = max(1, BLOCK_NUMBERS // self.codes.shape[1])
        for start in range(0, len(self), size):
            yield np.array(self.codes[start : start + size], dtype=np.float64, order="F")

    def rows(self, index: Int[np.ndarray, "rows"]) -> MetricInputs:
        """Some of the items; classes that are left are numbered without gaps, and rare ones dropped or merged."""
        part = self.part(index)
        return replace(part, factors=_close_gaps(part.factors, self.discrete)).without_rare_classes()

    def without_rare_classes(self) -> MetricInputs:
        """Classes of one item dropped or merged as `rare` says, and counted; the others numbered without gaps."""
        if self.rare is None:
            return self
        rare = _rare(self.factors, self.discrete)
        if self.rare == DROP:
            kept = np.arange(len(self))
            while (again := _rare(self.factors[kept], self.discrete)).any():
                kept = kept[~again.any(1)]
            data, items = self.part(kept), len(self) - len(kept)
        else:
            columns = zip(self.factors.T, rare.T, strict=True)
            merged = np.column_stack([_merged(column, alone) for column, alone in columns])
            data, items = replace(self, factors=merged), int(rare.any(1).sum())
        factors = _close_gaps(data.factors, self.discrete)
        found = replace(data, factors=factors, rare_classes=int(rare.sum()), rare_items=items)
        found.require_varying_factors()
        return found

    def require_varying_factors(self) -> None:
        """Raise an error that names the first factor with a single value."""
        after = f" after rare classes were handled by {self.rare!r}" if self.rare_items else ""
        for place, (name, column) in enumerate(zip(self.names, self.factors.T, strict=True)):
            if len(self) == 0 or (column == column[0]).all():
                what = f"is {self.values[0, place]:.10g} for all items" if len(self) else "has no items left"
                raise DataError(f"every factor must vary, {name!r} {what}{after}. Leave it out.")

    def split(self, train: int, test: int, seed: int) -> tuple[MetricInputs, MetricInputs]:
        """Disjoint random parts to learn from and to test on, smaller in proportion if there are fewer items."""
        share = min(1.0, len(self) / (train + test))
        first, both = int(train * share), int((train + test) * share)
        order = np.random.default_rng(seed).permutation(len(self))
        return self.part(order[:first]), self.part(order[first:both])


def metric_inputs(
    codes: CodesLike,
    factors: FactorsLike = None,
    *,
    argument: str = FACTORS,
    names: Sequence[str] | None = None,
    discrete: FactorChoice = False,
    continuous: FactorChoice = False,
    rare: str | None = None,
    exclude: str | None = None,
    types: TypesLike | None = None,
) -> MetricInputs:
    """Check codes and factors.

    Args:
        codes: A `Representation`, whose means are taken, or an array, items x latents.
        factors: One column for each factor. Default: those of the `Representation` that vary, or its labels.
        argument: The name of the factors in error messages.
        names, discrete, continuous, rare, exclude, types: See `InputOptions`.
    """
    array = code_table(codes)
    if rare not in (None, DROP, MERGE):
        raise unknown_name("rare", rare, (DROP, MERGE))
    columns: Sequence[int] | None = None
    if factors is None:
        factors, names, columns = _own_factors(codes, names, argument)
    elif names is None:
        names = column_names(factors)
    given = as_numpy(factors, argument)
    given = given[:, None] if given.ndim == 1 else given
    if given.ndim != 2 or len(given) != len(array) or 0 in given.shape:
        raise DataError(
            f"{argument} must have one row for each item of the codes and one column for each factor, got the shapes "
            f"{given.shape} and {tuple(array.shape)} of the codes. Pass those of the same items, in the same order."
        )
    values = given.astype(np.float64)
    check_finite(torch.from_numpy(values), argument, "columns")
    titles = _titles(names, values.shape[1])
    if len(set(titles)) < len(titles):
        raise DataError(f"names of factors must differ, got {titles}.")
    kept = _kept_latents(codes, array.shape[1], exclude, types)
    numbered = range(len(titles)) if columns is None else columns
    kinds = discrete_factors(values, titles, numbered, discrete, continuous)
    # The factors of a representation are class numbers.
    if argument == FACTORS and columns is None and discrete is False and continuous is False:
        warn_of_unlikely_types(values, titles, kinds)
    # Numbered from the original factors: neighbouring integers above 2^53 round to one float.
    data = MetricInputs(
        array if exclude is None else array[:, kept], _close_gaps(given, kinds), titles, kinds, kept, values, rare
    )
    data.require_varying_factors()
    return data.without_rare_classes()


def code_table(codes: CodesLike) -> Real[np.ndarray, "items latents"]:
    """Codes as a checked table, items x latents, in their own type; memory maps stay mapped."""
    array = as_numpy(means_of(codes), "codes")
    if array.ndim != 2 or array.size == 0 or not np.isfinite([array.min(), array.max()]).all():
        as_table(array, "codes")  # raises the error
    as_table(array[:2], "codes", min_items=2)
    return array


def learnable_split(data: MetricInputs, train: int, test: int, seed: int) -> tuple[MetricInputs, MetricInputs]:
    """`MetricInputs.split`, or an error if there is nothing to test on or only one class of a factor to learn."""
    first, second = data.split(train, test, seed)
    for place, (name, column) in enumerate(zip(data.names, first.factors.T, strict=True)):
        if len(second) == 0 or len(np.unique(column)) < 2:
            raise DataError(
                f"there must be items to test on and two classes of {name!r} to learn, got {len(second)} and the "
                f"classes {np.unique(first.values[:, place]).tolist()} among {len(first)} of {len(data)} items. "
                "Pass more items."
            )
    return first, second


def train_test_split(data: MetricInputs, seed: int) -> tuple[MetricInputs, MetricInputs]:
    """10,000 items to learn from and 5,000 to test on, or fewer in this proportion, with only the discrete factors.

    Raises an error if a class has a single example, or if only one class is left to learn.
    """
    kept = np.flatnonzero(data.discrete)
    names = tuple(data.names[place] for place in kept)
    factors, values = data.factors[:, kept], data.values[:, kept]
    whole = replace(data, names=names, discrete=(True,) * len(kept), factors=factors, values=values)
    whole.require_examples(MIN_EXAMPLES)
    return learnable_split(whole, TRAIN_ITEMS, TEST_ITEMS, seed)


def count_varying(factors: Tensor | None, labels: Tensor | None) -> int:
    """The number of factors that vary, or without factors 1 if the labels vary."""
    table = labels if factors is None else factors
    return 0 if table is None else int((table.reshape(len(table), -1) != table[0]).any(0).sum())


def _own_factors(
    codes: CodesLike, names: Sequence[str] | None, argument: str
) -> tuple[Int[np.ndarray, "items *factors"], Sequence[str] | None, Sequence[int]]:
    """The factors of a representation that vary, their names and their columns; or its labels."""
    factors, labels = (codes.factors, codes.labels) if isinstance(codes, Representation) else (None, None)
    if factors is None and labels is None:
        raise DataError(f"a metric compares codes with {argument}, got codes alone. Pass {argument}.")
    if factors is None:
        return as_numpy(labels, "labels"), ("label",) if names is None else names, (0,)
    table = as_numpy(factors, "factors")
    names = codes.factor_names if names is None and isinstance(codes, Representation) else names
    varying = np.flatnonzero((table != table[0]).any(0))
    titles = _titles(names, table.shape[1])
    return table[:, varying], [titles[place] for place in varying], varying.tolist()


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
        raise DataError(f"all latents are {exclude}, so none is left. {advice}.")
    return kept


def _rare(factors: Float[np.ndarray, "items factors"], discrete: Sequence[bool]) -> Bool[np.ndarray, "items factors"]:
    """Where a value belongs to a class of fewer than `MIN_EXAMPLES` items."""
    found = np.zeros(factors.shape, dtype=bool)
    for place in np.flatnonzero(discrete):
        column = factors[:, place].astype(np.int64)
        found[:, place] = np.bincount(column)[column] < MIN_EXAMPLES
    return found


def _merged(column: Float[np.ndarray, "items"], rare: Bool[np.ndarray, "items"]) -> Float[np.ndarray, "items"]:
    """The column with its rare classes as one; a single one joins the next rarest."""
    if not rare.any():
        return column
    classes, counts = np.unique(column, return_counts=True)
    joined = classes[np.argsort(counts, kind="stable")[: max(int(rare.sum()), MIN_EXAMPLES)]]
    return np.where(np.isin(column, joined), joined[0], column)


def _close_gaps(values: np.ndarray, discrete: Iterable[bool]) -> Float[np.ndarray, "items factors"]:
    """Number the values of discrete columns from 0 without gaps."""
    return np.column_stack(
        [
            (np.unique(column, return_inverse=True)[1] if kind else column).astype(np.float64)
            for column, kind in zip(values.T, discrete, strict=True)
        ]
    )
