"""The variational autoencoder (Bonheme, chapter 3, figure 3.1)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from vaescope.models.module import Parts, Variational
from vaescope.models.registry import MODELS
from vaescope.nets.net import Shape
from vaescope.numerics.distributions import Distribution


@MODELS.register("vae", summary="encoder, posterior, prior, decoder, likelihood", source="Bonheme, eq. 3.5")
class VAE(Variational):
    """Encoder -> posterior -> z -> decoder -> likelihood, with a prior over z."""

    def __init__(self, shape: Shape, latents: int, parts: Parts) -> None:
        encoder = parts.net.encoder(shape)
        super().__init__(
            latents,
            encoder=encoder,
            posterior=parts.posterior.head(encoder.features, latents),
            prior=parts.prior.module(latents),
            decoder=parts.net.decoder(latents, shape),
            likelihood=parts.likelihood.module(shape),
        )

    def encode(self, x: Float[Tensor, "batch ..."], condition: Tensor | None = None) -> Distribution:
        """q(z|x)."""
        return self.posterior(self.encoder(x), self.latent_mask)
