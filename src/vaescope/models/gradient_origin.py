"""The variational gradient origin network: the decoder's own gradient is the encoder (Clapham, section II-C)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.checks import finite_number, whole_number
from vaescope.models.forward_pass import Pass
from vaescope.models.registry import MODELS
from vaescope.numerics.distributions import full_precision
from vaescope.numerics.divergence import latent_rate


@MODELS.register("vgon", summary="no encoder: the code is a gradient at the origin", source="Clapham and Grzes, eq. 6")
class VGON(nn.Module):
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
    own_initialisation: ClassVar[str] = "torch"
    latent_mask: Tensor

    def __init__(
        self,
        shape: tuple[int, ...],
        latents: int,
        *,
        net: Any,
        posterior: Any,
        prior: Any,
        likelihood: Any,
        inner_beta: float = 1.0,
        origin: int | None = None,
        scale: float = 0.125,
    ) -> None:
        super().__init__()
        self.inner_beta = finite_number("inner_beta", inner_beta, at_least=0)
        self.origin = None if origin is None else whole_number("origin", origin, 1)
        self.scale = finite_number("scale", scale, above=0)
        self.posterior = posterior.head(self.origin or latents, latents)
        self.prior = prior.module(latents)
        self.decoder = net.decoder(latents, shape)
        self.likelihood = likelihood.module()
        self.noise = {"origin": latents, "posterior": latents}
        self.register_buffer("latent_mask", torch.ones(latents), persistent=False)

    def encode(self, x: Float[Tensor, "batch ..."], condition: Tensor | None = None) -> Any:
        """q(z|x) after a first pass without noise."""
        return self.posterior(self.representation(x, None), self.latent_mask)

    def decode(self, z: Float[Tensor, "batch latents"], condition: Tensor | None = None) -> Any:
        """p(x|z)."""
        return self.likelihood(self.decoder(z.to(self.latent_mask.dtype)))

    def forward(
        self, x: Float[Tensor, "batch ..."], noise: Mapping[str, Tensor], condition: Tensor | None = None
    ) -> Pass:
        return self._from(self.representation(x, noise["origin"]), noise["posterior"])

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
        result = self._from(start, noise)
        rate = latent_rate(result.posterior, result.prior, result.z).sum(1)
        return (self.inner_beta * rate - result.likelihood.log_prob(full_precision(x))).sum()

    def _from(self, start: Tensor, noise: Tensor | None) -> Pass:
        posterior = self.posterior(start, self.latent_mask)
        z = (posterior.mean if noise is None else posterior.sample(noise)) * self.latent_mask
        return Pass(posterior, z, self.decode(z), self.prior(self.latent_mask))
