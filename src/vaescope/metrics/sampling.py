"""Items that share the value of one factor: drawn from labelled codes, or from a full grid of factors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias, Unpack

import numpy as np
import torch
from jaxtyping import Float, Int, Real

from vaescope.checks import random_seed, whole_number
from vaescope.codes import CodesLike, means_of
from vaescope.codes.arrays import as_table, check_finite
from vaescope.errors import ConfigurationError, DataError
from vaescope.metrics.inputs import FactorsLike, MetricInputs
from vaescope.metrics.score import MetricOptions, RawScore, Score, evaluate, inputs_of, make_score
from vaescope.numerics import counter

GRID_SAMPLE_ITEMS = 10_000  # for the spread of the latents
MAX_BLOCK_ITEMS = 1 << 20  # drawn at a time: some ten megabytes in each array
MAX_COPIED_NUMBERS = 1 << 23  # of labelled codes
MAX_TABLE_NUMBERS = 1 << 27  # codes of a grid that are kept: a gigabyte

Uniform = Float[np.ndarray, "..."]
ItemNumbers = Int[np.ndarray, "..."]
CodeColumns = Real[np.ndarray, "latents rows"]
Encode = Callable[[ItemNumbers], Float[np.ndarray, "items latents"]]


@dataclass(frozen=True)
class ItemSampler:
    """Draws labelled items from numbers in [0, 1); those that share a value are drawn with replacement."""

    sample: MetricInputs

    def __post_init__(self) -> None:
        self.sample.require_examples(2)

    def draw(self, uniform: Uniform) -> ItemNumbers:
        """One of all items for each number."""
        return (uniform * len(self.sample)).astype(np.int64)

    def draw_sharing(self, fixed: ItemNumbers, anchors: ItemNumbers, uniform: Uniform) -> ItemNumbers:
        """For each number, an item whose factor `fixed` has the value of the anchor; arguments broadcast."""
        order, starts, counts, keys = self._groups
        group = keys[anchors, fixed]
        places = (uniform * counts[group]).astype(np.int64)
        places += starts[group]
        return np.asarray(order.take(places))

    def columns(self, items: ItemNumbers) -> tuple[CodeColumns, ItemNumbers]:
        """A table of codes, and the row of each item in it."""
        return self._codes, items

    @cached_property
    def _codes(self) -> CodeColumns:
        columns = self.sample.codes.T
        # Items are found faster in columns that are each in one piece.
        return np.ascontiguousarray(columns, np.float64) if columns.size <= MAX_COPIED_NUMBERS else columns

    @cached_property
    def _groups(self) -> tuple[ItemNumbers, ItemNumbers, ItemNumbers, ItemNumbers]:
        """Items sorted by the value of each factor in turn; the start and size of each value's run; its number.

        Values are numbered over all factors, so that one lookup finds the items of any value of any factor.
        """
        classes = self.sample.classes
        keys = classes + np.concatenate(([0], np.cumsum(classes.max(0) + 1)[:-1]))
        counts = np.bincount(keys.ravel())
        order = np.concatenate([np.argsort(column, kind="stable") for column in keys.T])
        return order, np.cumsum(counts) - counts, counts, keys


@dataclass(frozen=True)
class FactorGrid:
    """Every combination of some factors, encoded on demand.

    Metrics that hold a factor fixed draw combinations and encode each drawn item once. For a model and a data set
    use `vaescope.encoding.factor_grid`.

    Attributes:
        encode: Function from item numbers to the codes of these items: an array, items x latents, or a
            `Representation`. Items are numbered with the last factor varying fastest.
        sizes: The number of values of each factor.
        names: The name of each factor.
    """

    encode: Callable[[Int[np.ndarray, "items"]], CodesLike] = field(repr=False)
    sizes: tuple[int, ...]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if not callable(self.encode):
            raise DataError(f"encode must be a function from item numbers to codes, got {type(self.encode).__name__}.")
        for size in self.sizes:
            whole_number("each of sizes", size, 1)
        if len(self.names) != len(self.sizes):
            raise DataError(f"there must be a name for each of {len(self.sizes)} factors, got {self.names}.")

    @property
    def varying(self) -> tuple[int, ...]:
        """The indices of the factors that have more than one value."""
        return tuple(place for place, size in enumerate(self.sizes) if size > 1)

    def values(self, items: Int[np.ndarray, "items"]) -> Int[np.ndarray, "items varying"]:
        """The values of the varying factors."""
        return np.stack(np.unravel_index(items, self.sizes), axis=1)[:, self.varying]

    def sample(
        self, factors: FactorsLike, names: Sequence[str] | None, seed: int
    ) -> tuple[CodesLike, Int[np.ndarray, "items varying"], list[str]]:
        """The codes and varying factors of some items, and the names of these factors."""
        if factors is not None:
            raise ConfigurationError("a grid has factors already. Leave factors out, or pass codes instead.")
        titles = self.names if names is None else tuple(names)
        if len(titles) != len(self.sizes):
            raise DataError(f"there must be a name for each of {len(self.sizes)} factors, got {titles}.")
        order = counter.permutation(torch.tensor(random_seed(seed)), "draw", torch.tensor(0), int(np.prod(self.sizes)))
        items = order[:GRID_SAMPLE_ITEMS].sort().values.numpy()
        return self.encode(items), self.values(items), [titles[place] for place in self.varying]


class GridSampler:
    """Draws combinations of a grid, as `ItemSampler` draws items.

    Codes are kept if they fit in `table` numbers, else computed for each block.
    """

    def __init__(
        self, sample: MetricInputs, sizes: Sequence[int], encode: Encode, table: int = MAX_TABLE_NUMBERS
    ) -> None:
        self.sample = sample
        self._encode = encode
        self._cells = int(np.prod(sizes))
        strides = np.cumprod([1, *sizes[:0:-1]])[::-1]
        varying = np.array(sizes) > 1
        self._sizes, self._strides = np.array(sizes)[varying], strides[varying]
        latents = sample.codes.shape[1]
        kept = self._cells if self._cells * latents <= table else 0
        self._known = np.zeros(kept, dtype=bool)
        self._table = np.empty((latents, kept))

    def draw(self, uniform: Uniform) -> ItemNumbers:
        return (uniform * self._cells).astype(np.int64)

    def draw_sharing(self, fixed: ItemNumbers, anchors: ItemNumbers, uniform: Uniform) -> ItemNumbers:
        items = self.draw(uniform)
        return np.asarray(items + (self._value(fixed, anchors) - self._value(fixed, items)) * self._strides[fixed])

    def columns(self, items: ItemNumbers) -> tuple[CodeColumns, ItemNumbers]:
        if not len(self._known):
            distinct, places = np.unique(items, return_inverse=True)
            return np.ascontiguousarray(self._encode(distinct).T), places.reshape(items.shape)
        wanted = np.zeros_like(self._known)
        wanted[items] = True
        missing = np.flatnonzero(wanted & ~self._known)
        if len(missing):
            self._table[:, missing] = self._encode(missing).T
            self._known[missing] = True
        return self._table, items

    def _value(self, factor: ItemNumbers, items: ItemNumbers) -> ItemNumbers:
        return np.asarray(items // self._strides[factor] % self._sizes[factor])


FixedFactorSampler: TypeAlias = ItemSampler | GridSampler
FixedFactorMeasure: TypeAlias = Callable[[FixedFactorSampler, int], RawScore]


def evaluate_fixed(
    metric: str,
    estimator: str,
    measure: FixedFactorMeasure,
    codes: CodesLike | FactorGrid,
    factors: FactorsLike = None,
    **options: Unpack[MetricOptions],
) -> Score:
    """The same as `evaluate`, for a measure of items that share a factor: from labelled codes or a `FactorGrid`."""

    if not isinstance(codes, FactorGrid):
        estimator += ", from labelled items"
        return evaluate(
            metric, estimator, lambda data, seed: measure(ItemSampler(data), seed), codes, factors, **options
        )
    if whole_number("half_samples", options.get("half_samples", 0), 0):
        raise ConfigurationError(
            "half_samples are drawn from labelled items; a grid holds all items, so its score has no spread over them. "
            "Leave half_samples out, or pass codes and factors."
        )
    refused = sorted(options.keys() & {"continuous", "discrete", "rare"})
    if refused:
        raise ConfigurationError(
            f"{refused[0]} is about labelled items; a grid has every value of its factors equally often. "
            "Leave it out, or pass codes and factors."
        )
    seed = random_seed(options.get("seed", 0))
    grid = codes
    codes, values, options["names"] = grid.sample(factors, options.get("names"), seed)
    sample = inputs_of(codes, values, **options)
    kept = list(sample.latents)

    def encode(items: ItemNumbers) -> Float[np.ndarray, "items latents"]:
        table = as_table(means_of(grid.encode(items)), "codes of the grid", finite=False)
        check_finite(table, "codes of the grid", numbers=items.tolist())
        if len(table) != len(items) or table.shape[1] <= max(kept):
            raise DataError(
                f"encode must return the same latents for each of {len(items)} items, got the shape "
                f"{tuple(table.shape)}. Correct the function."
            )
        return table.double().cpu().numpy()[:, kept]

    found = measure(GridSampler(sample, grid.sizes, encode), seed)
    score = make_score(metric, f"{estimator}, from the full grid", found, sample)
    if options.get("scale", False):
        random, perfect = _scale(sample, grid, measure, seed)
        score = replace(score, random=random, perfect=perfect)
    return score


def blocks(count: int, size: int, limit: int | None = None) -> Iterator[slice]:
    """Slices of `count` batches of `size` items, each of at most `limit` items (default: 2^20) or one batch."""
    step = max(1, (MAX_BLOCK_ITEMS if limit is None else limit) // size)
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def gathered(column: Real[np.ndarray, "rows"], places: ItemNumbers) -> Float[np.ndarray, "..."]:
    """The numbers at some places of a column, in float64."""
    # Of a column in one piece take() is faster; of any other it would first make a copy.
    found = column.take(places) if column.flags.c_contiguous else column[places]
    return found.astype(np.float64, copy=False)


def _scale(sample: MetricInputs, grid: FactorGrid, measure: FixedFactorMeasure, seed: int) -> tuple[float, float]:
    """The scores of noise, one draw for each combination, and of the factors themselves, standardised."""
    latents = sample.codes.shape[1]
    sizes = np.array(grid.sizes)[list(grid.varying)]

    def noise(items: ItemNumbers) -> Float[np.ndarray, "items latents"]:
        rows = torch.from_numpy(items).long()
        drawn = counter.normal(torch.tensor(seed), "noise codes", torch.tensor(0), rows, latents)
        return drawn.numpy().astype(np.float64)

    def values(items: ItemNumbers) -> Float[np.ndarray, "items factors"]:
        return np.asarray((grid.values(items) - (sizes - 1) / 2) / np.sqrt((sizes**2 - 1) / 12))

    some = np.random.default_rng((seed, 2)).integers(int(np.prod(grid.sizes)), size=GRID_SAMPLE_ITEMS)
    scores = []
    for encode in (noise, values):
        drawn = MetricInputs(encode(some), sample.factors[:0], sample.names, sample.discrete, (), sample.values[:0])
        scores.append(float(measure(GridSampler(drawn, grid.sizes, encode), seed).score))
    return scores[0], scores[1]
