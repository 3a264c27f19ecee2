"""The Dataset contract: items by index, factors and labels beside them, deterministic splits."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.errors import ConfigurationError, DataError
from vaescope.numerics import counter


@dataclass(frozen=True)
class Factors:
    """The generative factors of a data set: names, and how many values each takes."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def cells(self) -> int:
        """The number of combinations of factor values."""
        return math.prod(self.sizes)

    def index(self, codes: Int[Tensor, "items factors"]) -> Int[Tensor, "items"]:
        """The position of each combination when the last factor varies fastest."""
        result = torch.zeros(len(codes), dtype=torch.int64, device=codes.device)
        for column, size in enumerate(self.sizes):
            result = result * size + codes[:, column]
        return result

    def codes(self, index: Int[Tensor, "items"]) -> Int[Tensor, "items factors"]:
        """The combination at each position; the inverse of `index`."""
        columns = []
        for size in reversed(self.sizes):
            columns.append(index % size)
            index = index // size
        return torch.stack(columns[::-1], dim=1)


class Dataset(ABC):
    """Items that can be asked for by index, on any device.

    Attributes:
        name: how the user named it.
        shape: (channels, height, width) of an image, or (dimensions,) of a vector.
        factor_table: names and sizes of the generative factors, or None.
        grid: whether item i is the i-th combination of all factor values, each there exactly once.
        labels: one class number per item, or None.
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
        """The items at `index`, float32, in [0, 1] for images, on the index's device."""

    @abstractmethod
    def to(self, device: torch.device | str) -> Dataset:
        """The same data set with whatever it stores held on `device`."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A hash that changes when an item changes: it enters the identity of a run."""

    @property
    def factors(self) -> Int[Tensor, "items factors"] | None:
        """The factor codes of every item (int16), or None."""
        if self.factor_table is None or not self.grid:
            return None
        return self.factor_table.codes(torch.arange(len(self))).to(torch.int16)

    @property
    def is_image(self) -> bool:
        """Whether an item is an image rather than a vector."""
        return len(self.shape) == 3

    @property
    def dimensions(self) -> int:
        """The number of numbers in one item."""
        return math.prod(self.shape)

    def chunks(self, size: int, device: torch.device | str = "cpu") -> Iterator[Float[Tensor, "chunk ..."]]:
        """All items in order, `size` at a time."""
        for start in range(0, len(self), size):
            yield self.batch(torch.arange(start, min(start + size, len(self)), device=device))

    def split(self, held_out: float | int = 0.1, seed: int = 0) -> tuple[Subset, Subset]:
        """Two disjoint parts, drawn by `seed` alone: the rest, and `held_out` (a share, or a number of items)."""
        count = round(held_out * len(self)) if isinstance(held_out, float) else held_out
        if not 0 < count < len(self):
            raise ConfigurationError(
                f"held_out must leave at least one item on each side of {len(self)} items, got {held_out!r}. "
                "Pass a share between 0 and 1, or a smaller number of items."
            )
        order = counter.permutation(torch.tensor(seed), "split", torch.tensor(0), len(self))
        return Subset.of(self, order[count:].sort().values), Subset.of(self, order[:count].sort().values)

    def draw(self, count: int, seed: int = 0) -> Dataset:
        """At most `count` items, drawn by `seed` and in their old order; sorted sets are not cut at their beginning."""
        if count >= len(self):
            return self
        order = counter.permutation(torch.tensor(seed), "draw", torch.tensor(0), len(self))
        return Subset.of(self, order[:count].sort().values)

    def __repr__(self) -> str:
        factors = f", factors={self.factor_table.names}" if self.factor_table else ""
        return f"{type(self).__name__}({self.name!r}, items={len(self)}, shape={self.shape}{factors})"


@dataclass(frozen=True, repr=False)
class Subset(Dataset):
    """Some items of another data set, in a given order."""

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
            raise DataError(f"a subset needs at least one item, got an empty index into {base.name!r}.")
        if int(index.min()) < 0 or int(index.max()) >= len(base):
            raise DataError(
                f"the index of a subset must lie in 0..{len(base) - 1} (the items of {base.name!r}), "
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


def describe(dataset: Dataset) -> dict[str, Any]:
    """What a configuration keeps of a data set."""
    return {
        "name": dataset.name,
        "items": len(dataset),
        "shape": list(dataset.shape),
        "fingerprint": dataset.fingerprint,
    }
