"""The result of an objective: named terms for each example and their weights in the loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Terms:
    """One number for each example and name; the loss is the batch mean of their weighted sum."""

    values: dict[str, Float[Tensor, "batch"]]
    weights: dict[str, float | Tensor]

    @property
    def loss(self) -> Float[Tensor, ""]:
        """The number that training minimises."""
        return torch.stack([self.weights[name] * value for name, value in self.values.items()]).sum(0).mean()

    def means(self) -> dict[str, Float[Tensor, ""]]:
        """The batch mean of the loss and of every term, as kept in the history."""
        return {"loss": self.loss, **{name: value.mean() for name, value in self.values.items()}}
