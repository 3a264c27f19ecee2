"""The deterministic autoencoder: the same nets, a code without noise, no prior."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.models.forward_pass import Pass
from vaescope.models.registry import MODELS
from vaescope.numerics.distributions import Point


@MODELS.register("autoencoder", summary="a code without noise, no prior", source="Bonheme, figure 8.6")
class Autoencoder(nn.Module):
    """Encoder -> z -> decoder -> likelihood; `latent_mask` as in the VAE."""

    latent_mask: Tensor

    def __init__(
        self, shape: tuple[int, ...], latents: int, *, net: Any, posterior: Any, prior: Any, likelihood: Any
    ) -> None:
        super().__init__()
        self.encoder = net.encoder(shape)
        self.posterior = posterior.head(self.encoder.features, latents)
        self.decoder = net.decoder(latents, shape)
        self.likelihood = likelihood.module()
        self.noise: dict[str, int] = {}
        self.register_buffer("latent_mask", torch.ones(latents), persistent=False)

    def encode(self, x: Float[Tensor, "batch ..."], condition: Tensor | None = None) -> Point:
        """The code, as a distribution with all its mass there."""
        return self.posterior(self.encoder(x), self.latent_mask)

    def decode(self, z: Float[Tensor, "batch latents"], condition: Tensor | None = None) -> Any:
        """p(x|z)."""
        return self.likelihood(self.decoder(z.to(self.latent_mask.dtype)))

    def forward(
        self, x: Float[Tensor, "batch ..."], noise: Mapping[str, Tensor], condition: Tensor | None = None
    ) -> Pass:
        code = self.encode(x, condition)
        return Pass(code, code.mean, self.decode(code.mean, condition), None)
