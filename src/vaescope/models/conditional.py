"""The conditional VAE: the label of an item joins the item and its code (Pastrana, sections 2.2 and 4.3)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.models.registry import MODELS
from vaescope.models.variational import Variational, prior_module
from vaescope.nets.mlp import VectorEncoder


@MODELS.register("conditional", summary="the label is joined to x and to z", source="Pastrana, section 4.3")
class Conditional(Variational):
    """q(z|x, y) and p(x|z, y) with y the label as a unit vector; the prior is p(z), or p(z|y) where that is given.

    An encoder that takes items as vectors takes the label as more of the same; beside any other, whose images have
    no room for it, the label joins the features. To the decoder it comes before z, so that z can grow.
    """

    condition_on: ClassVar[str | None] = "label"

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
        joins_items = isinstance(encoder, VectorEncoder)
        if joins_items:
            encoder = net.encoder((math.prod(shape) + condition,))
        super().__init__(
            latents,
            encoder=encoder,
            posterior=posterior.head(encoder.features + (0 if joins_items else condition), latents),
            prior=prior_module(prior, latents, condition),
            decoder=net.decoder(condition + latents, shape),
            likelihood=likelihood.module(),
            condition=condition,
        )
        self.joins_items = joins_items

    def encode(self, x: Float[Tensor, "batch ..."], condition: Tensor | None = None) -> Any:
        """q(z|x, y)."""
        label = self.told(condition)
        if self.joins_items:
            features = self.encoder(torch.cat([x.flatten(1), label], 1))
        else:
            features = torch.cat([self.encoder(x), label], 1)
        return self.posterior(features, self.latent_mask)

    def decode(self, z: Float[Tensor, "batch latents"], condition: Tensor | None = None) -> Any:
        """p(x|z, y)."""
        return self.likelihood(self.decoder(torch.cat([self.told(condition), z.to(self.latent_mask.dtype)], 1)))
