"""Items that share the value of one factor: drawn from labelled codes, or from a full grid, encoded on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, Unpack

import numpy as np
import torch
from jaxtyping import Float, Int

from vaescope.checks import whole_number
from vaescope.codes import Representation
from vaescope.data import Dataset, Factors, Subset, open_dataset
from vaescope.encoding import adapt
from vaescope.errors import ConfigurationError, DataError
from vaescope.metrics.inputs import Labelled, labelled
from vaescope.metrics.score import Common, Measured, Score, evaluate
from vaescope.numerics import counter

SAMPLE = 10_000  # items of a grid that tell the spread of its latents
BLOCK = 1 << 20  # items drawn at a time: some ten megabytes in each array
TABLE = 1 << 27  # numbers in the codes of a grid that are kept: a gigabyte

Draws = Float[np.ndarray, "..."]
Places = Int[np.ndarray, "..."]


class Source(Protocol):
    """Where items with a factor in common come from; numbers from [0, 1) are turned into items."""

    @property
    def sample(self) -> Labelled:
        """Items that tell the names of the factors and the spread of the latents."""

    def anywhere(self, uniform: Draws) -> Places:
        """One of all items for each number."""

    def sharing(self, fixed: Places, anchors: Places, uniform: Draws) -> Places:
        """One of the items whose factor `fixed` has the anchor's value, for each number; arguments broadcast."""

    def columns(self, items: Places) -> tuple[Float[np.ndarray, "latents rows"], Places]:
        """Codes, and where in them each of the items lies."""


@dataclass(frozen=True)
class Items:
    """Labelled items: those that share a value are drawn with replacement."""

    sample: Labelled

    def __post_init__(self) -> None:
        self.sample.require_examples(2)

    def anywhere(self, uniform: Draws) -> Places:
        return (uniform * len(self.sample)).astype(np.int64)

    def sharing(self, fixed: Places, anchors: Places, uniform: Draws) -> Places:
        order, starts, counts, keys = self._groups
        group = keys[anchors, fixed]
        places = (uniform * counts[group]).astype(np.int64)
        places += starts[group]
        return np.asarray(order.take(places))

    def columns(self, items: Places) -> tuple[Float[np.ndarray, "latents rows"], Places]:
        return self._codes, items

    @cached_property
    def _codes(self) -> Float[np.ndarray, "latents items"]:
        return np.ascontiguousarray(self.sample.codes.T)

    @cached_property
    def _groups(self) -> tuple[np.ndarray, ...]:
        """Items sorted by the value of each factor in turn; where each value starts and how many have it; its number.

        Values are numbered over all factors, so that one lookup finds the items of any value of any factor.
        """
        classes = self.sample.classes
        keys = classes + np.concatenate(([0], np.cumsum(classes.max(0) + 1)[:-1]))
        counts = np.bincount(keys.ravel())
        order = np.concatenate([np.argsort(column, kind="stable") for column in keys.T])
        return order, np.cumsum(counts) - counts, counts, keys


@dataclass(frozen=True)
class Grid:
    """A model, or whatever `adapt` takes together with data, and data that hold every combination of their factors.

    Metrics that hold a factor fixed draw combinations from it and encode each item they meet once.
    """

    model: Any = field(repr=False)
    data: Dataset

    def __post_init__(self) -> None:
        if not callable(self.model):
            raise DataError(
                "a grid needs a model or a function that encodes its data, got "
                f"{type(self.model).__name__}. Pass codes and their factors without a grid."
            )
        object.__setattr__(self, "data", open_dataset(self.data))
        if not self.data.grid or self.data.factor_table is None:
            raise DataError(
                f"a grid must hold every combination of its factors once, in order; {self.data.name!r} does not. "
                "Encode its items, and pass the codes and their factors instead."
            )

    @property
    def factors(self) -> Factors:
        """Names and sizes of all factors, those that do not vary among them."""
        assert self.data.factor_table is not None
        return self.data.factor_table

    def sample(self, count: int, seed: int) -> Representation:
        """The codes of at most `count` items, with their factors."""
        return adapt(self.model, self.data.draw(count, seed))

    def encode(self, items: Int[np.ndarray, "items"]) -> Float[np.ndarray, "items latents"]:
        """The mean representation of these items, in float64."""
        codes = adapt(self.model, Subset.of(self.data, torch.from_numpy(items))).mean.numpy().astype(np.float64)
        bad = np.flatnonzero(~np.isfinite(codes).all(1))
        if len(bad):
            raise DataError(f"codes must be finite, those of item {int(items[bad[0]])} of {self.data.name!r} are not.")
        return codes


class Cells:
    """The cells of a grid; codes are kept where they fit in `table` numbers, or else found again for each block."""

    def __init__(
        self,
        sample: Labelled,
        sizes: Sequence[int],
        encode: Callable[[np.ndarray], np.ndarray],
        table: int = TABLE,
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

    def anywhere(self, uniform: Draws) -> Places:
        return (uniform * self._cells).astype(np.int64)

    def sharing(self, fixed: Places, anchors: Places, uniform: Draws) -> Places:
        items = self.anywhere(uniform)
        return items + (self._value(fixed, anchors) - self._value(fixed, items)) * self._strides[fixed]

    def columns(self, items: Places) -> tuple[Float[np.ndarray, "latents rows"], Places]:
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

    def _value(self, factor: Places, items: Places) -> Places:
        return items // self._strides[factor] % self._sizes[factor]


def evaluate_fixed(
    metric: str,
    estimator: str,
    measure: Callable[[Source, int], Measured],
    codes: Any,
    factors: Any = None,
    **common: Unpack[Common],
) -> Score:
    """What `evaluate` does, for a measure of items that share a factor: of labelled codes, or of a `Grid`."""
    if isinstance(codes, Grid):
        return _evaluate_grid(metric, f"{estimator}, from the full grid", measure, codes, factors, **common)
    estimator = f"{estimator}, from labelled items"
    return evaluate(metric, estimator, lambda data, seed: measure(Items(data), seed), codes, factors, **common)


def grid_sample(grid: Grid, factors: Any, names: Sequence[str] | None, seed: int) -> tuple[Representation, list[str]]:
    """Codes and factors of some items, and the names of all factors."""
    if factors is not None:
        raise ConfigurationError("a grid has its own factors. Leave factors out, or pass codes instead of the grid.")
    return grid.sample(SAMPLE, seed), list(grid.factors.names if names is None else names)


def check_factors(source: Source) -> None:
    """An error where there is but one factor, and nothing to tell it from."""
    names = source.sample.names
    if len(names) < 2:
        raise DataError(f"this metric tells which factor was held fixed: it needs at least 2, got {names[0]!r} alone.")


def blocks(count: int, size: int, limit: int | None = None) -> Iterator[slice]:
    """Slices of `count` batches of `size` items each, at most `limit` items (`BLOCK` unless told) or one batch."""
    step = max(1, (BLOCK if limit is None else limit) // size)
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def _evaluate_grid(
    metric: str,
    estimator: str,
    measure: Callable[[Source, int], Measured],
    grid: Grid,
    factors: Any,
    *,
    names: Sequence[str] | None = None,
    exclude: str | None = None,
    types: Any = None,
    half_samples: int = 0,
    scale: bool = False,
    seed: int = 0,
) -> Score:
    if whole_number("half_samples", half_samples, 0):
        raise ConfigurationError(
            "half_samples are of labelled items, and a grid holds all there are: its score has no spread over items. "
            "Leave half_samples out, or pass codes and factors."
        )
    codes, titles = grid_sample(grid, factors, names, seed)
    sample = labelled(codes, names=titles, exclude=exclude, types=types)
    kept = list(sample.latents)
    found = measure(Cells(sample, grid.factors.sizes, lambda items: grid.encode(items)[:, kept]), seed)
    random, perfect = _scale(sample, grid.factors, measure, seed) if scale else (None, None)
    own = (found.by_factor, found.matrix, sample.names, sample.latents, None, random, perfect)
    return Score(metric, float(found.score), estimator, dict(found.parts), *own)


def _scale(
    sample: Labelled, factors: Factors, measure: Callable[[Source, int], Measured], seed: int
) -> tuple[float, float]:
    """The scores of noise, one draw for each cell, and of the factors themselves, each of variance 1."""
    latents = sample.codes.shape[1]
    sizes = np.array(factors.sizes)
    varying = sizes > 1

    def noise(items: np.ndarray) -> np.ndarray:
        drawn = counter.normal(
            torch.tensor(seed), "noise codes", torch.tensor(0), torch.from_numpy(items).long(), latents
        )
        return drawn.numpy().astype(np.float64)

    def values(items: np.ndarray) -> np.ndarray:
        codes = factors.codes(torch.from_numpy(items).long()).numpy()[:, varying]
        middle, spread = (sizes[varying] - 1) / 2, np.sqrt((sizes[varying] ** 2 - 1) / 12)
        return np.asarray((codes - middle) / spread)

    some = np.random.default_rng((seed, 2)).integers(factors.cells, size=SAMPLE)
    scores = []
    for encode in (noise, values):
        drawn = Labelled(encode(some), sample.factors[:0], sample.names, sample.discrete, (), sample.values[:0])
        scores.append(float(measure(Cells(drawn, factors.sizes, encode), seed).score))
    return scores[0], scores[1]
