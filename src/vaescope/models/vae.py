"""The variational autoencoder (Bonheme, chapter 3, figure 3.1)."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor

from vaescope.models.registry import MODELS
from vaescope.models.variational import Variational


@MODELS.register("vae", summary="encoder, posterior, prior, decoder, likelihood", source="Bonheme, eq. 3.5")
class VAE(Variational):
    """Encoder -> posterior -> z -> decoder -> likelihood, with a prior over z."""

    def __init__(
        self, shape: tuple[int, ...], latents: int, *, net: Any, posterior: Any, prior: Any, likelihood: Any
    ) -> None:
        encoder = net.encoder(shape)
        super().__init__(
            latents,
            encoder=encoder,
            posterior=posterior.head(encoder.features, latents),
            prior=prior.module(latents),
            decoder=net.decoder(latents, shape),
            likelihood=likelihood.module(),
        )

    def encode(self, x: Float[Tensor, "batch ..."], condition: Tensor | None = None) -> Any:
        """q(z|x)."""
        return self.posterior(self.encoder(x), self.latent_mask)

    def decode(self, z: Float[Tensor, "batch latents"], condition: Tensor | None = None) -> Any:
        """p(x|z)."""
        return self.likelihood(self.decoder(z.to(self.latent_mask.dtype)))
