"""The Dataset contract: items by index, with their factors and labels, and deterministic splits."""

from __future__ import annotations

import copy
import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Self, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.checks import part_of
from vaescope.data.cache import PublicSet
from vaescope.data.pixel_scale import UNIT_SCALE, PixelScale
from vaescope.data.sources import Source, option_name, source_of_part, source_with
from vaescope.errors import ConfigurationError, DataError, quoted
from vaescope.notebook import render_view
from vaescope.numerics import counter

BUILT_IN = "built in"
UNIT_RANGE = (0.0, 1.0)
MAX_CHUNK_NUMBERS = 2**22

Missing: TypeAlias = Literal["mask"]
"""NaNs are missing values: the encoder sees the mean of their dimension, and the likelihood leaves them out."""


@dataclass(frozen=True)
class Factors:
    """Names of the generative factors of a data set, and the number of values of each."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def cells(self) -> int:
        """The number of combinations of factor values."""
        return math.prod(self.sizes)

    @property
    def strides(self) -> tuple[int, ...]:
        """How far apart items are that differ by one in each factor."""
        return tuple(math.prod(self.sizes[column + 1 :]) for column in range(len(self.sizes)))

    def index(self, codes: Int[Tensor, "items factors"]) -> Int[Tensor, "items"]:
        """The position of each combination of values; the last factor varies fastest."""
        return (codes.to(torch.int64) * torch.tensor(self.strides, device=codes.device)).sum(1)

    def codes(self, index: Int[Tensor, "items"]) -> Int[Tensor, "items factors"]:
        """The combination of values at each position; the inverse of `index`."""
        strides, sizes = (torch.tensor(numbers, device=index.device) for numbers in (self.strides, self.sizes))
        return index[:, None] // strides % sizes


class Dataset(ABC):
    """Items that are read by index, on any device.

    A data set never holds a float copy of all its items: `batch` converts the items it returns.

    Attributes:
        name: The name under which the user opened it.
        shape: The shape of an item: (channels, height, width) for images, (channels, length) for signals,
            (dimensions,) for vectors.
        factor_table: Names and sizes of the generative factors, or None.
        factor_codes: The factor codes of every item; None if there are no factors, or if `grid` says them.
        grid: Whether item i is the i-th combination of all factor values, each exactly once.
        labels: One class number for each item, or None.
        label_names: The name of each class, or None if classes are known by number alone.
        source: What `open_dataset` opens again as the same data set; None for data in memory.
        holds_counts: Whether all numbers are known to be counts; numbers of other data sets may be counts, too.
        standardise: Whether models see each dimension with mean 0 and variance 1. Items are in the units of the data.
        missing: 'mask' if cells may be NaN, which are missing; None if all cells have values.
    """

    name: str
    shape: tuple[int, ...]
    factor_table: Factors | None = None
    factor_codes: Int[Tensor, "items factors"] | None = None
    grid: bool = False
    labels: Int[Tensor, "items"] | None = None
    label_names: tuple[str, ...] | None = None
    source: Source | None = None
    holds_counts: bool = False
    standardise: bool = False
    missing: Missing | None = None

    @abstractmethod
    def __len__(self) -> int:
        """The number of items."""

    @abstractmethod
    def batch(self, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch ..."]:
        """The items at `index` as a model sees them: in float32, on the device of `index`, pixels in `pixel_range`."""

    def stored(self, index: Int[Tensor, "batch"]) -> Tensor:
        """The items at `index` as they are best moved to another device, where `from_stored` makes a batch of them."""
        return self.batch(index)

    def from_stored(self, stored: Tensor) -> Float[Tensor, "batch ..."]:
        """The batch of items that `stored` returned, on the device that they are on."""
        return stored

    @property
    def resident_bytes(self) -> int:
        """The memory that `to` needs on another device; 0 if it is small, as for items that are computed."""
        return 0

    def in_data_scale(self, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch ..."]:
        """The items at `index`, with pixels in the scale of the data."""
        return self.pixel_scale.to_data(self.batch(index))

    def will_read(self, index: Int[Tensor, "batch"]) -> None:  # noqa: B027 - of use to data on a disk only
        """Say that the items at `index` come next; a data set on a disk lets the system read them meanwhile."""

    def encoder_input(self, index: Int[Tensor, "batch"]) -> Tensor:
        """The input of the encoder for the items at `index`: the items, unless the model needs more."""
        return self.batch(index)

    @abstractmethod
    def to(self, device: torch.device | str) -> Dataset:
        """The same data set, stored on `device`."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of the items; it is part of the identity of a run."""

    @property
    def factors(self) -> Int[Tensor, "items factors"] | None:
        """The factor codes of every item, or None; int16 unless a factor has too many values."""
        if self.factor_codes is not None or self.factor_table is None or not self.grid:
            return self.factor_codes
        return self.factor_table.codes(torch.arange(len(self))).to(torch.int16)

    @property
    def is_image(self) -> bool:
        """Whether an item is an image rather than a vector or a signal."""
        return len(self.shape) == 3

    @property
    def pixel_range(self) -> tuple[float, float]:
        """The values in a batch that are black and white: 0 and 1, unless the images were opened as given."""
        return UNIT_RANGE

    @property
    def pixel_scale(self) -> PixelScale:
        """The scale of the images, in which a run takes and gives them."""
        return UNIT_SCALE

    @property
    def range_in_data_scale(self) -> tuple[float, float]:
        """The values that are black and white in the data."""
        black, white = self.pixel_scale.to_data(torch.tensor(self.pixel_range, dtype=torch.float64)).tolist()
        return black, white

    @property
    def dimensions(self) -> int:
        """The number of values in one item."""
        return math.prod(self.shape)

    def chunks(self, size: int, device: torch.device | str = "cpu") -> Iterator[Float[Tensor, "chunk ..."]]:
        """All items in order, at most `size` items and `MAX_CHUNK_NUMBERS` numbers at a time."""
        size = max(1, min(size, MAX_CHUNK_NUMBERS // self.dimensions))
        for start in range(0, len(self), size):
            yield self.batch(torch.arange(start, min(start + size, len(self)), device=device))

    def split(self, held_out: float | int = 0.1, seed: int = 0) -> tuple[Subset, Subset]:
        """Split the items into a training part and a held-out part.

        Args:
            held_out: The size of the held-out part: a share if a float, a number of items if an int.
            seed: Determines the split, together with the number of items.

        Returns:
            The training part and the held-out part, each in the original order.
        """
        count = part_of(len(self), held_out)
        if not 0 < count < len(self):
            raise ConfigurationError(
                f"held_out must leave at least one item in each part of the {len(self)} items, got {held_out!r}. "
                "Pass a share between 0 and 1, or a smaller number of items."
            )
        order = counter.permutation(torch.tensor(seed), "split", torch.tensor(0), len(self))
        parts = [Subset.of(self, index.sort().values) for index in (order[count:], order[:count])]
        step = {"split": held_out, "seed": seed}
        training, rest = (one.from_part({**step, "part": part}) for part, one in enumerate(parts))
        return training, rest

    def draw(self, count: int, seed: int = 0) -> Dataset:
        """A random sample of at most `count` items, in their original order."""
        if count >= len(self):
            return self
        order = counter.permutation(torch.tensor(seed), "draw", torch.tensor(0), len(self))
        return Subset.of(self, order[:count].sort().values).from_part({"draw": count, "seed": seed})

    def from_source(self, source: Source | None) -> Self:
        """The same data set with a record of its source."""
        found = copy.copy(self)
        object.__setattr__(found, "source", source)  # data sets are frozen
        return found

    def standardised(self) -> Self:
        """The same data set, whose dimensions models see with mean 0 and variance 1."""
        if self.is_image:
            raise DataError(
                f"{self.name}: {option_name('standardise')} is for vectors and signals, whose dimensions may have any "
                f"scale; these are images, whose pixels have one. Remove {option_name('standardise')}."
            )
        found = self.from_source(source_with(self.source, "standardise", True))
        object.__setattr__(found, "standardise", True)
        return found

    def _repr_html_(self) -> str | None:
        return render_view(self, Dataset)

    def __repr__(self) -> str:
        factors = f", factors={self.factor_table.names}" if self.factor_table else ""
        return f"{type(self).__name__}({self.name!r}, items={len(self)}, shape={self.shape}{factors})"


@dataclass(frozen=True, repr=False)
class Subset(Dataset):
    """Some items of another data set, in the order of `index`."""

    base: Dataset
    index: Int[Tensor, "items"]
    name: str
    shape: tuple[int, ...]
    factor_table: Factors | None
    labels: Int[Tensor, "items"] | None
    label_names: tuple[str, ...] | None = None
    source: Source | None = field(default=None, compare=False)
    holds_counts: bool = False
    standardise: bool = False
    missing: Missing | None = None

    @classmethod
    def of(cls, base: Dataset, index: Int[Tensor, "items"]) -> Subset:
        """The items of `base` at `index`."""
        if len(index) == 0:
            raise DataError(f"A subset needs at least one item, got an empty index into {base.name!r}.")
        if int(index.min()) < 0 or int(index.max()) >= len(base):
            raise DataError(
                f"The index of a subset of {base.name!r} must lie in 0..{len(base) - 1}, "
                f"got {int(index.min())}..{int(index.max())}."
            )
        labels = None if base.labels is None else base.labels[index.to(base.labels.device)]
        found = cls(base, index, base.name, base.shape, base.factor_table, labels, base.label_names)
        return replace(found, holds_counts=base.holds_counts, standardise=base.standardise, missing=base.missing)

    def from_part(self, step: Mapping[str, object]) -> Subset:
        """The same items, with a record of the step that selected them."""
        return self.from_source(source_of_part(self.base.source, step))

    def __len__(self) -> int:
        return len(self.index)

    def batch(self, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch ..."]:
        return self.base.batch(self.index.to(index.device)[index])

    def stored(self, index: Int[Tensor, "batch"]) -> Tensor:
        return self.base.stored(self.index.to(index.device)[index])

    def from_stored(self, stored: Tensor) -> Float[Tensor, "batch ..."]:
        return self.base.from_stored(stored)

    @property
    def resident_bytes(self) -> int:
        return self.base.resident_bytes + self.index.nbytes

    def will_read(self, index: Int[Tensor, "batch"]) -> None:
        self.base.will_read(self.index.to(index.device)[index])

    def encoder_input(self, index: Int[Tensor, "batch"]) -> Tensor:
        return self.base.encoder_input(self.index.to(index.device)[index])

    def to(self, device: torch.device | str) -> Subset:
        return replace(self, base=self.base.to(device), index=self.index.to(device))

    @property
    def pixel_range(self) -> tuple[float, float]:
        return self.base.pixel_range

    @property
    def pixel_scale(self) -> PixelScale:
        return self.base.pixel_scale

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(self.base.fingerprint.encode())
        digest.update(self.index.cpu().numpy().tobytes())
        return digest.hexdigest()

    @property
    def factors(self) -> Int[Tensor, "items factors"] | None:
        if self.base.factor_table is not None and self.base.grid:
            return self.base.factor_table.codes(self.index.cpu()).to(torch.int16)
        whole = self.base.factors
        return None if whole is None else whole[self.index.cpu()]


def checked_missing(value: object) -> Missing | None:
    """The option `missing`, or an error that says what it may be."""
    if value is None or value == "mask":
        return None if value is None else "mask"
    raise ConfigurationError(f"missing must be 'mask', or None to refuse missing values, got {quoted(value)}.")


def check_complete(dataset: Dataset, what: str) -> None:
    """Raise an error if cells may be missing, which `what` cannot take."""
    if dataset.missing is not None:
        raise DataError(
            f"{what} needs items without missing cells, but {dataset.name} was opened with "
            f"missing={dataset.missing!r}. Fill in the missing values."
        )


def describe(dataset: Dataset) -> dict[str, object]:
    """The facts about a data set that a run's configuration records."""
    return {
        "name": dataset.name,
        "items": len(dataset),
        "shape": list(dataset.shape),
        "fingerprint": dataset.fingerprint,
    }


@dataclass(frozen=True)
class DatasetEntry:
    """A data set that `open_dataset` knows by name.

    Attributes:
        summary: What an item shows, in a few words.
        source: The publication that introduced the data set.
        items, shape: The number of items and the shape of an item, opened without options.
        factors: Names of the generative factors; empty if there are none or if an optional file contains them.
        open: Opens the data set; its keyword arguments are the options of `open_dataset`.
        locate: Where the data are now: `BUILT_IN` (with what else is needed) or a path; None if they are missing.
        how_to_get: How to get the data if they are missing.
        licence: The terms of use of the data; "" if they are not known.
        published: The files of a public data set; None if there are none.
    """

    name: str
    summary: str
    source: str
    items: int
    shape: tuple[int, ...]
    factors: tuple[str, ...]
    open: Callable[..., Dataset]
    locate: Callable[[], str | None] = lambda: BUILT_IN
    how_to_get: str = ""
    licence: str = ""
    published: PublicSet | None = None
