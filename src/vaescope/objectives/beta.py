"""The beta-VAE objective (Bonheme, eq. 4.25); beta = 1 is the negative ELBO (eq. 3.5)."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from vaescope.models.forward_pass import ForwardPass
from vaescope.objectives.objective import Context, Terms
from vaescope.objectives.registry import OBJECTIVES
from vaescope.objectives.scheduled import ScheduledObjective
from vaescope.objectives.strengths import require


@OBJECTIVES.register("beta", summary="reconstruction + beta KL; beta = 1 is the ELBO", source="Bonheme, eq. 4.25")
@dataclass(frozen=True)
class Beta(ScheduledObjective):
    """-E[log p(x|z)] + beta KL(q(z|x) || p(z)); the rate of a deterministic code is 0."""

    beta: float | Tensor = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "beta", at_least=0)

    def terms(self, x: Float[Tensor, "batch ..."], result: ForwardPass, context: Context) -> Terms:
        values = {"reconstruction": self.reconstruction(x, result), "rate": self.rate(result, context)}
        return Terms(values, {"reconstruction": 1.0, "rate": self.beta})
