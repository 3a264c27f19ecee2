"""The annealed VAE: the rate is held at a capacity that grows during training (Bonheme, eq. 4.26)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.models.forward_pass import ForwardPass
from vaescope.objectives.objective import Context, Terms
from vaescope.objectives.registry import OBJECTIVES
from vaescope.objectives.scheduled import ScheduledObjective
from vaescope.objectives.strengths import require


@OBJECTIVES.register("annealed", summary="reconstruction + gamma |KL - C(t)|", source="Bonheme, eq. 4.26")
@dataclass(frozen=True)
class Annealed(ScheduledObjective):
    """-E[log p(x|z)] + gamma |KL(q(z|x) || p(z)) - C|, with C rising linearly.

    The mean divergence of the batch is compared with C, as in disentanglement_lib; single examples may lie on either
    side. For a deterministic code, only the reconstruction counts.

    Attributes:
        gamma: Weight of the distance to the capacity (alpha in eq. 4.26).
        capacity: The final value of C, in nats.
        steps: Steps over which C rises from 0 to `capacity`.
    """

    gamma: float | Tensor = 1000.0
    capacity: float | Tensor = 25.0
    steps: float | Tensor = 100_000.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "gamma", at_least=0)
        require(self, "capacity", at_least=0)
        require(self, "steps", at_least=1)

    def terms(self, x: Float[Tensor, "batch ..."], result: ForwardPass, context: Context) -> Terms:
        rate = self.rate(result, context)
        distance = torch.zeros_like(rate)
        if result.prior is not None:
            distance = (rate.mean() - self._capacity_at(context.step, rate)).abs().expand_as(rate)
        values = {
            "reconstruction": self.reconstruction(x, result),
            "rate": rate.detach(),
            "capacity_distance": distance,
        }
        return Terms(values, {"reconstruction": 1.0, "rate": 0.0, "capacity_distance": self.gamma})

    def _capacity_at(self, step: Tensor, like: Tensor) -> Tensor:
        steps, capacity = (torch.as_tensor(value).to(like) for value in (self.steps, self.capacity))
        return capacity * (step / steps).clamp(max=1.0)
