"""The state of an ensemble in training, and the rows of its history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from jaxtyping import Float
from torch import Tensor

from vaescope.training.optimisers import Slots


@dataclass
class State:
    """The state of an ensemble, which engines change in place.

    Attributes:
        step: Number of steps done.
        parameters: One vector for each member.
        slots: The moments that the optimisers keep, by name.
        buffers: The persistent buffers of the model, by name; empty for a model without any.
    """

    step: int
    parameters: Float[Tensor, "members size"]
    slots: Slots
    buffers: dict[str, Float[Tensor, "members ..."]] = field(default_factory=dict)

    def copy(self) -> State:
        """A copy that later steps do not change."""
        return State(self.step, self.parameters.clone(), _clones(self.slots), _clones(self.buffers))

    def restore(self, other: State) -> None:
        """Copy the values of another state into these tensors, which programs may hold."""
        self.step = other.step
        self.parameters.copy_(other.parameters)
        for mine, theirs in ((self.slots, other.slots), (self.buffers, other.buffers)):
            for name, tensor in mine.items():
                tensor.copy_(theirs[name])


def first_member(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Named tensors of the first of the stacked members."""
    return {name: tensor[0] for name, tensor in tensors.items()}


def _clones(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in tensors.items()}


HistoryValue: TypeAlias = float | str | list[float]


@dataclass(frozen=True)
class HistoryRow:
    """The values of one member up to a step.

    Attributes:
        member: Position of the member in its ensemble.
        step: Number of steps done.
        split: 'train' (means since the row before), 'test' (held-out items) or 'probe' (types of the latents).
        values: The values by name.
    """

    member: int
    step: int
    split: str
    values: dict[str, HistoryValue]
