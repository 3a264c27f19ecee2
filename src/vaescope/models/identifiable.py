"""The identifiable VAE: the factors of an item shape its posterior and its prior (Bonheme, eq. 4.31, Table A.2)."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.data.conditions import ConditionKind
from vaescope.models.module import Parts, Variational
from vaescope.models.registry import MODELS
from vaescope.nets.net import Shape
from vaescope.numerics.distributions import Distribution


@MODELS.register(
    "identifiable",
    summary="iVAE: posterior and prior conditioned on the factors",
    source="Bonheme, eq. 4.31, Table A.2",
)
class Identifiable(Variational):
    """q(z|x, u) and p(z|u) with u the varying factors in [0, 1]; u reaches the decoder only through z.

    u is appended to the features of the encoder, whatever the net.
    """

    condition: ClassVar[ConditionKind | None] = "factors"
    default_prior: ClassVar[str] = "conditional"

    def __init__(self, shape: Shape, latents: int, parts: Parts) -> None:
        encoder = parts.net.encoder(shape)
        super().__init__(
            latents,
            encoder=encoder,
            posterior=parts.posterior.head(encoder.features + parts.condition_width, latents),
            prior=parts.prior.module(latents, parts.condition_width),
            decoder=parts.net.decoder(latents, shape),
            likelihood=parts.likelihood.module(shape),
            condition_width=parts.condition_width,
        )

    def encode(self, x: Float[Tensor, "batch ..."], condition: Tensor | None = None) -> Distribution:
        """q(z|x, u)."""
        return self.posterior(torch.cat([self.encoder(x), self.given(condition)], 1), self.latent_mask)
