"""The contract of an objective: named terms for each example, whose weighted sum is the loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vaescope.models.forward_pass import ForwardPass
from vaescope.registry import Part


@dataclass(frozen=True)
class Context:
    """What an objective may use in addition to the batch and the forward pass.

    Attributes:
        step: Number of steps done.
        items: Number of training items.
        mask: 1 for each latent in use.
        noise: The noise streams that the objective asks for.
        critic: `critic(z, frozen)` gives the outputs of the objective's critic; with `frozen`, gradients do not reach
            the critic. None for an objective without a critic.
    """

    step: Int[Tensor, ""]
    items: int
    mask: Float[Tensor, "latents"]
    noise: Mapping[str, Tensor] = field(default_factory=dict)
    critic: Callable[[Tensor, bool], Tensor] | None = None


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


@runtime_checkable
class Objective(Part, Protocol):
    """What training minimises.

    Fields that are numbers are its strengths: members of an ensemble may differ in them, and during training they are
    tensors. All other fields are the same for all members.
    """

    def noise(self, latents: int) -> dict[str, int]:
        """The streams of standard normal noise that `__call__` reads from the context, and the columns of each."""
        ...

    def critic(self, latents: int) -> nn.Module | None:
        """A net that is trained together with the model, on codes with `latents` latents; None for most objectives."""
        ...

    def __call__(self, x: Float[Tensor, "batch ..."], result: ForwardPass, context: Context) -> Terms:
        """The named terms of a batch and their weights."""
        ...
