"""The identifiable VAE: the factors of an item shape its posterior and its prior (Bonheme, eq. 4.31, Table A.2)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.models.registry import MODELS
from vaescope.models.variational import Variational, prior_module


@MODELS.register(
    "identifiable",
    summary="iVAE: conditioned on the factors, as its prior is",
    source="Bonheme, eq. 4.31, Table A.2",
)
class Identifiable(Variational):
    """q(z|x, u) and p(z|u) with u the varying factors in [0, 1]; p(x|z) is not told u, which reaches it through z.

    u joins the features of the encoder, whatever the net.
    """

    condition_on: ClassVar[str | None] = "factors"
    own_prior: ClassVar[str] = "conditional"

    def __init__(
        self,
        shape: tuple[int, ...],
        latents: int,
        *,
        net: Any,
        posterior: Any,
        prior: Any,
        likelihood: Any,
        condition: int,
    ) -> None:
        encoder = net.encoder(shape)
        super().__init__(
            latents,
            encoder=encoder,
            posterior=posterior.head(encoder.features + condition, latents),
            prior=prior_module(prior, latents, condition),
            decoder=net.decoder(latents, shape),
            likelihood=likelihood.module(),
            condition=condition,
        )

    def encode(self, x: Float[Tensor, "batch ..."], condition: Tensor | None = None) -> Any:
        """q(z|x, u)."""
        factors = self.told(condition)
        return self.posterior(torch.cat([self.encoder(x), factors], 1), self.latent_mask)

    def decode(self, z: Float[Tensor, "batch latents"], condition: Tensor | None = None) -> Any:
        """p(x|z)."""
        return self.likelihood(self.decoder(z.to(self.latent_mask.dtype)))
