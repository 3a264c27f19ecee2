"""What one pass through a model yields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Pass:
    """x -> posterior -> z -> likelihood, beside the prior (None for a deterministic code)."""

    posterior: Any
    z: Float[Tensor, "batch latents"]
    likelihood: Any
    prior: Any | None
