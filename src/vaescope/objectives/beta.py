"""The beta-VAE objective (Bonheme, eq. 4.25); beta = 1 is the negative ELBO (eq. 3.5)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.models.passes import Pass
from vaescope.objectives.strengths import require
from vaescope.objectives.terms import Terms


@dataclass(frozen=True)
class Beta:
    """-E[log p(x|z)] + beta KL(q(z|x) || p(z)); a deterministic code has no rate."""

    beta: float | Tensor = 1.0

    def __post_init__(self) -> None:
        require(self, "beta", at_least=0)

    def __call__(self, x: Float[Tensor, "batch ..."], result: Pass, step: Int[Tensor, ""]) -> Terms:
        reconstruction = -result.likelihood.log_prob(x)
        rate = torch.zeros_like(reconstruction) if result.prior is None else result.posterior.kl(result.prior)
        return Terms({"reconstruction": reconstruction, "rate": rate}, {"reconstruction": 1.0, "rate": self.beta})
