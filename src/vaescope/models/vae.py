"""The variational autoencoder (Bonheme, chapter 3, figure 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.models.passes import Pass


class VAE(nn.Module):
    """Encoder -> posterior -> z -> decoder -> likelihood, with a prior over z.

    `latent_mask` keeps the first n latents of a wider model: the others are N(0, 1) to the posterior and zero
    to the decoder, so that a model of n latents runs exactly inside the wider one.
    """

    latent_mask: Tensor

    def __init__(
        self, shape: tuple[int, ...], latents: int, *, net: Any, posterior: Any, prior: Any, likelihood: Any
    ) -> None:
        super().__init__()
        self.encoder = net.encoder(shape)
        self.posterior = posterior.head(self.encoder.features, latents)
        self.prior = prior.module(latents)
        self.decoder = net.decoder(latents, shape)
        self.likelihood = likelihood.module()
        self.noise = {"posterior": latents}
        self.register_buffer("latent_mask", torch.ones(latents), persistent=False)

    def encode(self, x: Float[Tensor, "batch ..."], condition: Tensor | None = None) -> Any:
        """q(z|x)."""
        return self.posterior(self.encoder(x), self.latent_mask)

    def decode(self, z: Float[Tensor, "batch latents"], condition: Tensor | None = None) -> Any:
        """p(x|z)."""
        return self.likelihood(self.decoder(z.to(self.latent_mask.dtype)))

    def forward(
        self, x: Float[Tensor, "batch ..."], noise: Mapping[str, Tensor], condition: Tensor | None = None
    ) -> Pass:
        posterior = self.encode(x, condition)
        z = posterior.sample(noise["posterior"]) * self.latent_mask
        return Pass(posterior, z, self.decode(z, condition), self.prior(self.latent_mask))
