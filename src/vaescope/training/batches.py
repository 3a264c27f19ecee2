"""What a training step takes from the data: items, and their conditions for a conditional model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.data.conditions import conditions_of
from vaescope.data.dataset import Dataset


@dataclass(frozen=True)
class Feed:
    """Items and conditions on one device; no conditions for a model that takes none."""

    data: Dataset
    conditions: Float[Tensor, "items width"] | None = None

    @classmethod
    def of(cls, data: Dataset, module: Any, device: torch.device | str) -> Feed:
        """The items, with the conditions of `module` if it is a conditional model."""
        return cls(data, conditions_of(module, data, device))

    def __len__(self) -> int:
        return len(self.data)

    def batch(self, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch ..."]:
        """The items at `index`."""
        return self.data.batch(index)

    def condition(self, index: Int[Tensor, "*batch"]) -> dict[str, Tensor]:
        """The conditions at `index`, under the name that a pass knows them by; nothing without any."""
        return {} if self.conditions is None else {"condition": self.conditions[index]}
