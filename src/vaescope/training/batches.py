"""What a training step reads: items, their conditions, and noise; which ones depends on seed and step alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.data.conditions import conditions_of
from vaescope.data.dataset import Dataset
from vaescope.models import LatentModel
from vaescope.numerics import counter


@dataclass(frozen=True)
class Batches:
    """Items and their conditions on one device; no conditions for an unconditional model."""

    data: Dataset
    conditions: Float[Tensor, "items width"] | None = None

    @classmethod
    def of(cls, data: Dataset, model: LatentModel, device: torch.device | str) -> Batches:
        """The items, with their conditions if the model is conditional."""
        return cls(data, conditions_of(model, data, device))

    def __len__(self) -> int:
        return len(self.data)

    def batch(self, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch ..."]:
        """The items at `index`."""
        return self.data.batch(index)

    def condition(self, index: Int[Tensor, "*batch"]) -> dict[str, Tensor]:
        """The conditions at `index` under the name 'condition'; empty for an unconditional model."""
        return {} if self.conditions is None else {"condition": self.conditions[index]}


def as_channels_last(x: Tensor) -> Tensor:
    """Images in the memory format that convolutions on a CPU are fastest in; other items unchanged."""
    return x.to(memory_format=torch.channels_last) if x.ndim == 4 and not x.is_cuda else x


class BatchOrder:
    """A new permutation of the items for each epoch and member; items that do not fill a batch are left out.

    The permutation of the current epoch is cached, but steps can be requested in any order.
    """

    def __init__(self, seeds: Int[Tensor, "members"], items: int, batch: int) -> None:
        self.seeds = seeds
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
        return torch.stack([self._step(step) for step in steps])

    def _step(self, step: int) -> Int[Tensor, "members batch"]:
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._order = counter.permutation(self.seeds, "batch order", torch.tensor(epoch), self.items)
            self._epoch = epoch
        return self._order[:, position * self.batch : (position + 1) * self.batch]


def draw_noise(
    columns: Mapping[str, int], seeds: Int[Tensor, "members"], steps: range, batch: int, dtype: torch.dtype
) -> dict[str, Tensor]:
    """Standard normal noise for each stream: steps x members x batch x columns."""
    number = torch.arange(steps.start, steps.stop, device=seeds.device)
    rows = torch.arange(batch, device=seeds.device)
    return {
        name: counter.normal(seeds, f"noise/{name}", number, rows, width).to(dtype) for name, width in columns.items()
    }
