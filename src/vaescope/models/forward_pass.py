"""The result of one pass through a model."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from vaescope.numerics.distributions import Distribution


@dataclass(frozen=True)
class ForwardPass:
    """x -> posterior -> z -> likelihood, and the prior (None for a deterministic code)."""

    posterior: Distribution
    z: Float[Tensor, "batch latents"]
    likelihood: Distribution
    prior: Distribution | None
