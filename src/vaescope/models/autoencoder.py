"""The deterministic autoencoder: the same nets, a code without noise, no prior."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from vaescope.models.forward_pass import ForwardPass
from vaescope.models.module import LatentModule, Parts
from vaescope.models.registry import MODELS
from vaescope.nets.net import Encoder, Shape
from vaescope.numerics.distributions import Distribution


@MODELS.register("autoencoder", summary="a code without noise, no prior", source="Bonheme, figure 8.6")
class Autoencoder(LatentModule):
    """Encoder -> z -> decoder -> likelihood."""

    default_posterior: ClassVar[str] = "deterministic"
    encoder: Encoder

    def __init__(self, shape: Shape, latents: int, parts: Parts) -> None:
        encoder = parts.net.encoder(shape)
        super().__init__(
            latents,
            encoder=encoder,
            posterior=parts.posterior.head(encoder.features, latents),
            prior=None,
            decoder=parts.net.decoder(latents, shape),
            likelihood=parts.likelihood.module(shape),
            noise={},
        )

    def encode(self, x: Float[Tensor, "batch ..."], condition: Tensor | None = None) -> Distribution:
        """The code, as a distribution with all its mass there."""
        return self.posterior(self.encoder(x), self.latent_mask)

    def forward(
        self, x: Float[Tensor, "batch ..."], noise: Mapping[str, Tensor], condition: Tensor | None = None
    ) -> ForwardPass:
        code = self.encode(x)
        return ForwardPass(code, code.mean, self.decode(code.mean), None)
