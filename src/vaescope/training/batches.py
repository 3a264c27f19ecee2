"""Inputs of a training step: items, their conditions, and noise, which depend only on seed and step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.data.conditions import conditions_of
from vaescope.data.dataset import Dataset
from vaescope.models import LatentModel
from vaescope.numerics import counter
from vaescope.training.feed import Feed

ITEMS = "items"
FLOAT_BYTES = 4


@dataclass(frozen=True)
class Batches:
    """Items and their conditions on one device; no conditions for an unconditional model.

    Attributes:
        data: The items.
        conditions: The condition of each item, on the device.
        held: All items as stored, on the device, if the data set itself is elsewhere.
        feed: What brings the items of each step to the device if all together do not fit there.
    """

    data: Dataset
    conditions: Float[Tensor, "items width"] | None = None
    held: Tensor | None = None
    feed: Feed | None = None

    @classmethod
    def of(cls, data: Dataset, model: LatentModel, device: torch.device, streamed: bool = False) -> Batches:
        """The items for training steps, with their conditions if the model is conditional."""
        return cls(data, conditions_of(model, data, device), feed=Feed(data, device) if streamed else None)

    @classmethod
    def of_few(cls, data: Dataset, model: LatentModel, device: torch.device) -> Batches:
        """Items of which all fit on the device, even if the data set from which they were drawn does not."""
        conditions = conditions_of(model, data, device)
        if device.type == "cpu":
            return cls(data, conditions)
        if data.resident_bytes <= len(data) * data.dimensions * FLOAT_BYTES:
            return cls(data.to(device), conditions)
        return cls(data, conditions, data.stored(torch.arange(len(data))).to(device))

    def __len__(self) -> int:
        return len(self.data)

    def batch(self, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch ..."]:
        """The items at `index`."""
        return self.data.batch(index) if self.held is None else self.data.from_stored(self.held[index])

    def steps(self, indices: Int[Tensor, "steps members batch"]) -> Iterator[dict[str, Tensor]]:
        """For each step, its items under the name 'items' if they are streamed; empty if they are read by `of_step`.

        Either way, the items of later steps are requested meanwhile.
        """
        if self.feed is not None:
            for rows in self.feed.steps(indices):
                yield {ITEMS: rows}
            return
        for position in range(len(indices)):
            self.data.will_read(indices[position + 1 : position + 2].flatten())
            yield {}

    def example(self, index: Int[Tensor, "members batch"]) -> dict[str, Tensor]:
        """What `steps` gives for a step, without reading ahead."""
        return {} if self.feed is None else {ITEMS: self.feed.example(index.flatten())}

    def of_step(
        self, given: Mapping[str, Tensor], index: Int[Tensor, "members batch"]
    ) -> Float[Tensor, "members batch ..."]:
        """The items of one step, which `steps` has given or announced."""
        flat = self.data.from_stored(given[ITEMS]) if ITEMS in given else self.batch(index.reshape(-1))
        return flat.reshape(*index.shape, *self.data.shape)

    def condition(self, index: Int[Tensor, "*batch"]) -> dict[str, Tensor]:
        """The conditions at `index` under the name 'condition'; empty for an unconditional model."""
        return {} if self.conditions is None else {"condition": self.conditions[index]}


def as_channels_last(x: Tensor) -> Tensor:
    """Images in the fastest memory format for convolutions on a CPU; other items unchanged."""
    return x.to(memory_format=torch.channels_last) if x.ndim == 4 and not x.is_cuda else x


class BatchOrder:
    """A new permutation of the items for each epoch and member; items that do not fill a batch are left out.

    The permutation of the current epoch is cached, but steps can be requested in any order.
    """

    def __init__(
        self, seeds: Int[Tensor, "members"], items: int, batch: int, device: torch.device | None = None
    ) -> None:
        """The order of `items` items; their positions are on `device`, by default that of the seeds."""
        self.seeds, self.device = seeds, device
        self.items = items
        self.batch = min(batch, items)
        self.steps_per_epoch = items // self.batch
        self._epoch = -1
        self._order = torch.empty(0)

    def forget(self) -> None:
        """Clear the cached permutation, because the seeds have changed."""
        self._epoch = -1

    def indices(self, steps: range) -> Int[Tensor, "steps members batch"]:
        """The items of each step."""
        return torch.stack([self._step(step) for step in steps]).to(self.device or self.seeds.device)

    def _step(self, step: int) -> Int[Tensor, "members batch"]:
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._order = counter.permutation(self.seeds, "batch order", torch.tensor(epoch), self.items)
            self._epoch = epoch
        return self._order[:, position * self.batch : (position + 1) * self.batch]


def draw_noise(
    columns: Mapping[str, int],
    seeds: Int[Tensor, "members"],
    steps: range,
    batch: int,
    dtype: torch.dtype,
    device: torch.device | None = None,
) -> dict[str, Tensor]:
    """Standard normal noise for each stream: steps x members x batch x columns; default: on the device of the seeds."""
    number = torch.arange(steps.start, steps.stop, device=seeds.device)
    rows = torch.arange(batch, device=seeds.device)
    return {
        name: counter.normal(seeds, f"noise/{name}", number, rows, width).to(dtype).to(device or seeds.device)
        for name, width in columns.items()
    }
