"""The variational gradient origin network: the decoder's own gradient is the encoder (Clapham, section II-C)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import finite_number, whole_number
from vaescope.models.forward_pass import ForwardPass
from vaescope.models.module import LatentModule, Parts
from vaescope.models.registry import MODELS
from vaescope.nets.net import Shape
from vaescope.numerics.distributions import Distribution, full_precision
from vaescope.numerics.divergence import latent_rate
from vaescope.priors.prior import PriorModule


@MODELS.register("vgon", summary="no encoder: the code is a gradient at the origin", source="Clapham and Grzes, eq. 6")
class VGON(LatentModule):
    """Zeros -> posterior -> z -> decoder -> loss; its negative gradient at the zeros is r, and r -> posterior again.

    r = -scale d loss / d r0 at r0 = 0 (eq. 6), with the loss -log p(x|z) + inner_beta KL summed over items, pixels and
    latents: an item's r depends on no other item. Training passes through this gradient, hence is of second order.
    The first pass has noise of its own, 'origin'. `encode` leaves that noise out, so that an item has one code.

    Attributes:
        inner_beta: Weight of the rate in the loss of the first pass, whatever the objective's own.
        origin: How many numbers r has; None for as many as latents, whose mask then keeps r's first n, too.
        scale: Of r; the equation has 1. The authors' code averages the loss over the batch, at their size of 64 a scale
            of 1 / 64. Between the two, training neither overflows on larger images nor starts slowly.
    """

    options: ClassVar[tuple[str, ...]] = ("inner_beta", "origin", "scale")
    # The gradient leaves through the posterior's weights and r comes in through them again: the log-variance grows with
    # their square. By Glorot's scheme that is three times what it is by PyTorch's, and training can overflow.
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
    ) -> None:
        inner_beta = finite_number("inner_beta", inner_beta, at_least=0)
        origin = None if origin is None else whole_number("origin", origin, 1)
        scale = finite_number("scale", scale, above=0)
        super().__init__(
            latents,
            encoder=None,
            posterior=parts.posterior.head(origin or latents, latents),
            prior=parts.prior.module(latents),
            decoder=parts.net.decoder(latents, shape),
            likelihood=parts.likelihood.module(shape),
            noise={"origin": latents, "posterior": latents},
        )
        self.inner_beta, self.origin, self.scale = inner_beta, origin, scale

    def encode(self, x: Float[Tensor, "batch ..."], condition: Tensor | None = None) -> Distribution:
        """q(z|x) after a first pass without noise."""
        return self.posterior(self.representation(x, None), self.latent_mask)

    def forward(
        self, x: Float[Tensor, "batch ..."], noise: Mapping[str, Tensor], condition: Tensor | None = None
    ) -> ForwardPass:
        return ForwardPass(*self._from(self.representation(x, noise["origin"]), noise["posterior"]))

    def representation(
        self, x: Float[Tensor, "batch ..."], noise: Float[Tensor, "batch latents"] | None
    ) -> Float[Tensor, "batch origin"]:
        """r of every item; no noise for the code of `encode`."""
        zeros = torch.zeros(len(x), self.origin or len(self.latent_mask), dtype=x.dtype, device=x.device)
        # Works where autograd is off, too, and under the transforms that ensembles are made of.
        gradient = torch.func.grad(lambda start: self.inner_loss(x, start, noise))(zeros)
        r = -self.scale * gradient
        return r if self.origin else r * self.latent_mask

    def inner_loss(
        self, x: Float[Tensor, "batch ..."], start: Float[Tensor, "batch origin"], noise: Tensor | None
    ) -> Float[Tensor, ""]:
        """The loss of a pass from `start`, summed over the items."""
        posterior, z, likelihood, prior = self._from(start, noise)
        rate = latent_rate(posterior, prior, z).sum(1)
        return (self.inner_beta * rate - likelihood.log_prob(full_precision(x))).sum()

    def _from(self, start: Tensor, noise: Tensor | None) -> tuple[Distribution, Tensor, Distribution, Distribution]:
        posterior = self.posterior(start, self.latent_mask)
        z = (posterior.mean if noise is None else posterior.sample(noise)) * self.latent_mask
        return posterior, z, self.decode(z), self.prior(self.latent_mask)
