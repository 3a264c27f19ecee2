"""The conditional VAE: the label of an item joins the item and its code (Pastrana, sections 2.2 and 4.3)."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.data.conditions import ConditionKind
from vaescope.models.module import Parts, Variational
from vaescope.models.registry import MODELS
from vaescope.nets.net import Shape
from vaescope.numerics.distributions import Distribution


@MODELS.register("conditional", summary="the label joins x and z", source="Pastrana, section 4.3")
class Conditional(Variational):
    """q(z|x, y) and p(x|z, y) with y the label as a one-hot vector; the prior is p(z), or p(z|y) if it is conditional.

    The label is appended to an item that the encoder takes as a vector, and to the features of any other encoder.
    """

    condition: ClassVar[ConditionKind | None] = "label"
    conditioned_decoder: ClassVar[bool] = True

    def __init__(self, shape: Shape, latents: int, parts: Parts) -> None:
        width = parts.condition_width
        joins_items = parts.net.takes_vectors
        encoder = parts.net.encoder((math.prod(shape) + width,) if joins_items else shape)
        super().__init__(
            latents,
            encoder=encoder,
            posterior=parts.posterior.head(encoder.features + (0 if joins_items else width), latents),
            prior=parts.prior.module(latents, width),
            decoder=parts.net.decoder(width + latents, shape),
            likelihood=parts.likelihood.module(shape),
            condition_width=width,
        )
        self.joins_items = joins_items

    def encode(self, x: Float[Tensor, "batch ..."], condition: Tensor | None = None) -> Distribution:
        """q(z|x, y)."""
        label = self.given(condition)
        if self.joins_items:
            features = self.encoder(torch.cat([x.flatten(1), label], 1))
        else:
            features = torch.cat([self.encoder(x), label], 1)
        return self.posterior(features, self.latent_mask)
