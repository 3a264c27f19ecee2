"""The data of a training step: items, and their conditions for a conditional model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.data.conditions import conditions_of
from vaescope.data.dataset import Dataset
from vaescope.models import LatentModel


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
