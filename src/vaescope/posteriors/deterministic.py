"""q(z|x) with all its mass on one code: the posterior of a deterministic autoencoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from vaescope.numerics.distributions import Point, full_precision
from vaescope.posteriors.posterior import Posterior
from vaescope.posteriors.registry import POSTERIORS


@POSTERIORS.register("deterministic", summary="a point", source="Bonheme, figure 8.6")
@dataclass(frozen=True)
class Deterministic(Posterior):
    """A point; no noise, no rate."""

    deterministic: ClassVar[bool] = True

    def head(self, features: int, latents: int) -> DeterministicHead:
        """Features -> code."""
        return DeterministicHead(features, latents)


class DeterministicHead(nn.Module):
    """One affine head."""

    def __init__(self, features: int, latents: int) -> None:
        super().__init__()
        self.mean = nn.Linear(features, latents)

    def forward(self, features: Float[Tensor, "batch features"], mask: Float[Tensor, "latents"]) -> Point:
        return Point(full_precision(self.mean(features)) * mask)
