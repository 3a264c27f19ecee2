"""Models with an encoder: the VAE, the deterministic autoencoder, and VAEs that are given something about an item."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from vaescope.data.conditions import ConditionKind
from vaescope.models.latent_model import ForwardPass, Items, Noise
from vaescope.models.module import MODELS, LatentModule, Parts
from vaescope.nets.net import Encoder, Shape
from vaescope.numerics.distributions import Distribution


class EncoderModel(LatentModule):
    """Encoder -> posterior -> z -> decoder -> likelihood, with a prior over z unless the code has no noise.

    A condition is appended to the features of the encoder.

    Attributes:
        appends_to_items: Whether the condition is appended to an item instead, if the encoder takes it as a vector.
    """

    appends_to_items: ClassVar[bool] = False
    encoder: Encoder

    def __init__(self, shape: Shape, latents: int, parts: Parts) -> None:
        joins_items = self.appends_to_items and parts.net.takes_vectors
        width = parts.condition_width
        encoder = parts.net.encoder((math.prod(shape) + width,) if joins_items else shape)
        features = encoder.features + (0 if joins_items else width)
        super().__init__(shape, latents, parts, encoder=encoder, features=features)
        self.joins_items = joins_items
        self.preprocess = parts.likelihood.preprocess

    def encode(self, x: Items, condition: Tensor | None = None) -> Distribution:
        """q(z|x), or q(z|x, condition)."""
        x = self.preprocess(self.inside(x))
        if self.condition is None:
            features = self.encoder(x)
        elif self.joins_items:
            features = self.encoder(torch.cat([x.flatten(1), self.given(condition)], 1))
        else:
            features = torch.cat([self.encoder(x), self.given(condition)], 1)
        return self.posterior(features, self.latent_mask)

    def forward(self, x: Items, noise: Noise, condition: Tensor | None = None) -> ForwardPass:
        posterior = self.encode(x, condition)
        if self.prior is None:
            return ForwardPass(posterior, posterior.mean, self.decode(posterior.mean, condition), None)
        z = posterior.sample(noise["posterior"]) * self.latent_mask
        return ForwardPass(posterior, z, self.decode(z, condition), self.prior(self.latent_mask, condition))


@MODELS.register("vae", summary="encoder, posterior, prior, decoder, likelihood", source="Bonheme, eq. 3.5")
class VAE(EncoderModel):
    """The variational autoencoder (Bonheme, chapter 3, figure 3.1)."""


@MODELS.register("autoencoder", summary="a code without noise, no prior", source="Bonheme, figure 8.6")
class Autoencoder(EncoderModel):
    """The deterministic autoencoder: the same nets, a code without noise, no prior."""

    default_posterior: ClassVar[str] = "deterministic"


@MODELS.register("conditional", summary="the label joins x and z", source="Pastrana, section 4.3")
class Conditional(EncoderModel):
    """q(z|x, y) and p(x|z, y) with y the label as a one-hot vector; the prior is p(z), or p(z|y) if it is conditional.

    The label is appended to an item that the encoder takes as a vector, and to the features of any other encoder
    (Pastrana, sections 2.2 and 4.3).
    """

    condition: ClassVar[ConditionKind | None] = "label"
    conditioned_decoder: ClassVar[bool] = True
    appends_to_items: ClassVar[bool] = True


@MODELS.register(
    "identifiable",
    summary="iVAE: posterior and prior conditioned on the factors",
    source="Bonheme, eq. 4.31, Table A.2",
)
class Identifiable(EncoderModel):
    """q(z|x, u) and p(z|u) with u the varying factors in [0, 1]; u reaches the decoder only through z."""

    condition: ClassVar[ConditionKind | None] = "factors"
    default_prior: ClassVar[str] = "conditional"
