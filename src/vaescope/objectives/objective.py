"""The contract of an objective: named terms for each example, whose weighted sum is the loss."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from vaescope.models.forward_pass import ForwardPass
from vaescope.objectives.context import Context
from vaescope.objectives.terms import Terms
from vaescope.registry import Part


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
