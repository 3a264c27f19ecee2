"""The variational gradient origin network: the gradient of the decoder is the encoder (Clapham, section II-C)."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import finite_number, whole_number
from vaescope.models.latent_model import ForwardPass, Items, Noise
from vaescope.models.module import MODELS, LatentModule, Parts, copied_buffers
from vaescope.nets.net import Shape
from vaescope.numerics.distributions import Distribution, full_precision, latent_rate
from vaescope.priors.prior import PriorModule


@MODELS.register("vgon", summary="no encoder: the code is a gradient at the origin", source="Clapham and Grzes, eq. 6")
class VGON(LatentModule):
    """Zeros -> posterior -> z -> decoder -> loss; its negative gradient at the zeros is r, and r -> posterior again.

    r = -scale d loss / d r0 at r0 = 0 (eq. 6), with the loss -log p(x|z) + inner_beta KL summed over items, pixels and
    latents, so the r of an item does not depend on other items. Training differentiates this gradient and is therefore
    of second order. With several inner steps r descends further from there: r <- r - scale d loss / d r. Each step is a
    pass with its own noise stream, 'origin', 'origin 2', ..., which `encode` sets to 0, so that an item has one code;
    `encode_with_noise` draws it.

    Attributes:
        inner_beta: Weight of the rate in the loss of the first pass, independent of the objective.
        origin: Size of r; default: the number of latents, and the latent mask then applies to r as well.
        scale: Scale of r, 1 in the equation. The authors' code averages the loss over the batch, which for their 64
            items is a scale of 1 / 64. Between the two, training neither overflows on larger images nor starts slowly.
        inner_steps: Number of gradient steps to r. The equation has one, and its authors say that it is enough.
    """

    options: ClassVar[tuple[str, ...]] = ("inner_beta", "origin", "scale", "inner_steps")
    # The gradient passes through the weights of the posterior twice, so the log-variance grows with their square. With
    # Glorot's scheme it is three times that of PyTorch's, and training can overflow.
    default_initialisation: ClassVar[str] = "torch"
    prior: PriorModule

    def __init__(
        self,
        shape: Shape,
        latents: int,
        parts: Parts,
        *,
        inner_beta: float = 1.0,
        origin: int | None = None,
        scale: float = 0.125,
        inner_steps: int = 1,
    ) -> None:
        inner_beta = finite_number("inner_beta", inner_beta, at_least=0)
        origin = None if origin is None else whole_number("origin", origin, 1)
        scale = finite_number("scale", scale, above=0)
        inner_steps = whole_number("inner_steps", inner_steps, 1)
        inner_streams = ("origin", *(f"origin {step}" for step in range(2, inner_steps + 1)))
        streams = dict.fromkeys((*inner_streams, "posterior"), latents)
        super().__init__(shape, latents, parts, encoder=None, features=origin or latents, noise=streams)
        self.inner_beta, self.origin, self.scale, self.inner_streams = inner_beta, origin, scale, inner_streams

    def encode(self, x: Items, condition: Tensor | None = None) -> Distribution:
        """q(z|x) after inner passes without noise."""
        return self.posterior(self.representation(x, None), self.latent_mask)

    def encode_with_noise(self, x: Items, noise: Noise, condition: Tensor | None = None) -> Distribution:
        """q(z|x) after inner passes with noise, as in training."""
        return self.posterior(self.representation(x, noise), self.latent_mask)

    def forward(self, x: Items, noise: Noise, condition: Tensor | None = None) -> ForwardPass:
        return ForwardPass(*self._from(self.representation(x, noise), noise["posterior"]))

    def representation(self, x: Items, noise: Noise | None) -> Float[Tensor, "batch origin"]:
        """The r of every item; without noise for `encode`."""
        r = self.latent_mask.new_zeros(len(x), self.origin or len(self.latent_mask))
        for stream in self.inner_streams:
            r = self._step(x, r, None if noise is None else noise[stream])
        return r

    def _step(self, x: Items, r: Tensor, noise: Tensor | None) -> Float[Tensor, "batch origin"]:
        """r after one step down the gradient of the inner loss."""
        # Unlike torch.autograd.grad, this also works without autograd and under vmap.
        gradient = torch.func.grad(lambda start: self.inner_loss(x, start, noise))(r)
        moved: Tensor = r - self.scale * gradient
        return moved if self.origin else moved * self.latent_mask

    def inner_loss(self, x: Items, start: Float[Tensor, "batch origin"], noise: Tensor | None) -> Float[Tensor, ""]:
        """The loss of a pass from `start`, summed over the items."""
        # Running statistics are those of the second pass only.
        with copied_buffers(self.get_submodule("decoder")):
            posterior, z, likelihood, prior = self._from(start, noise)
        rate = latent_rate(posterior, prior, z).sum(1)
        return (self.inner_beta * rate - likelihood.log_prob(full_precision(x))).sum()

    def _from(self, start: Tensor, noise: Tensor | None) -> tuple[Distribution, Tensor, Distribution, Distribution]:
        posterior = self.posterior(start, self.latent_mask)
        z = (posterior.mean if noise is None else posterior.sample(noise)) * self.latent_mask
        return posterior, z, self.decode(z), self.prior(self.latent_mask)
