"""The Dataset contract: items by index, with their factors and labels, and deterministic splits."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.errors import ConfigurationError, DataError
from vaescope.numerics import counter

BUILT_IN = "built in"


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
        shape: The shape of an item: (channels, height, width) for images, (dimensions,) for vectors.
        factor_table: Names and sizes of the generative factors, or None.
        grid: Whether item i is the i-th combination of all factor values, each exactly once.
        labels: One class number for each item, or None.
    """

    name: str
    shape: tuple[int, ...]
    factor_table: Factors | None = None
    grid: bool = False
    labels: Int[Tensor, "items"] | None = None

    @abstractmethod
    def __len__(self) -> int:
        """The number of items."""

    @abstractmethod
    def batch(self, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch ..."]:
        """The items at `index` in float32, on the device of `index`; pixels lie in [0, 1]."""

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
        if self.factor_table is None or not self.grid:
            return None
        return self.factor_table.codes(torch.arange(len(self))).to(torch.int16)

    @property
    def is_image(self) -> bool:
        """Whether an item is an image rather than a vector."""
        return len(self.shape) == 3

    @property
    def dimensions(self) -> int:
        """The number of values in one item."""
        return math.prod(self.shape)

    def chunks(self, size: int, device: torch.device | str = "cpu") -> Iterator[Float[Tensor, "chunk ..."]]:
        """All items in order, `size` items at a time."""
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
        # A share is clipped, because the product of a large one is infinite.
        count = round(max(0.0, min(1.0, held_out)) * len(self)) if isinstance(held_out, float) else held_out
        if not 0 < count < len(self):
            raise ConfigurationError(
                f"held_out must leave at least one item in each part of the {len(self)} items, got {held_out!r}. "
                "Pass a share between 0 and 1, or a smaller number of items."
            )
        order = counter.permutation(torch.tensor(seed), "split", torch.tensor(0), len(self))
        return Subset.of(self, order[count:].sort().values), Subset.of(self, order[:count].sort().values)

    def draw(self, count: int, seed: int = 0) -> Dataset:
        """A random sample of at most `count` items, in their original order."""
        if count >= len(self):
            return self
        order = counter.permutation(torch.tensor(seed), "draw", torch.tensor(0), len(self))
        return Subset.of(self, order[:count].sort().values)

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
        return cls(base, index, base.name, base.shape, base.factor_table, labels)

    def __len__(self) -> int:
        return len(self.index)

    def batch(self, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch ..."]:
        return self.base.batch(self.index.to(index.device)[index])

    def to(self, device: torch.device | str) -> Subset:
        return replace(self, base=self.base.to(device), index=self.index.to(device))

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
