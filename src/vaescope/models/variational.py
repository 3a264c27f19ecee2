"""What models with an encoder and a prior share: the pass from an item to its code and back (Bonheme, figure 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.errors import DataError
from vaescope.models.forward_pass import Pass
from vaescope.numerics.distributions import DiagonalGaussian
from vaescope.priors.standard import StandardPrior


class Variational(nn.Module):
    """Encoder -> posterior -> z -> decoder -> likelihood, with a prior over z.

    A subclass says in `encode` and `decode` where the condition joins in, and in `condition_on` what it is: the
    'label' of an item or its 'factors'. `latent_mask` keeps the first n latents of a wider model: the others are
    N(0, 1) to the posterior and zero to the decoder, so that a model of n latents runs exactly inside the wider one.
    """

    condition_on: ClassVar[str | None] = None
    latent_mask: Tensor

    def __init__(
        self,
        latents: int,
        *,
        encoder: nn.Module,
        posterior: nn.Module,
        prior: nn.Module,
        decoder: nn.Module,
        likelihood: nn.Module,
        condition: int = 0,
    ) -> None:
        super().__init__()
        self.encoder, self.posterior, self.prior = encoder, posterior, prior
        self.decoder, self.likelihood = decoder, likelihood
        self.condition_width = condition
        self.noise = {"posterior": latents}
        self.register_buffer("latent_mask", torch.ones(latents), persistent=False)

    def encode(self, x: Float[Tensor, "batch ..."], condition: Tensor | None = None) -> Any:
        """q(z|x), or q(z|x, condition)."""
        raise NotImplementedError

    def decode(self, z: Float[Tensor, "batch latents"], condition: Tensor | None = None) -> Any:
        """p(x|z), or p(x|z, condition)."""
        raise NotImplementedError

    def forward(
        self, x: Float[Tensor, "batch ..."], noise: Mapping[str, Tensor], condition: Tensor | None = None
    ) -> Pass:
        posterior = self.encode(x, condition)
        z = posterior.sample(noise["posterior"]) * self.latent_mask
        told = (self.told(condition),) if takes_condition(self.prior) else ()
        return Pass(posterior, z, self.decode(z, condition), self.prior(self.latent_mask, *told))

    def told(self, condition: Tensor | None) -> Float[Tensor, "batch width"]:
        """The condition, in the precision of the model; an error where it is missing or of another width."""
        if condition is None or condition.shape[1:] != (self.condition_width,):
            got = "none" if condition is None else f"the shape {tuple(condition.shape)}"
            raise DataError(
                f"{type(self).__name__} must be told the {self.condition_on} of every item as {self.condition_width} "
                f"numbers, got {got}. Pass a condition of items x {self.condition_width}, or encode a data set, which "
                "brings its own."
            )
        return condition.to(self.latent_mask.dtype)


def gaussian_prior(model: Any, condition: Tensor | None = None) -> DiagonalGaussian | None:
    """The prior of a model where it is a Gaussian other than N(0, 1), which is what codes are else measured against."""
    prior = getattr(model, "prior", None)
    if prior is None or isinstance(prior, StandardPrior):
        return None
    found = prior(model.latent_mask, *((model.told(condition),) if takes_condition(prior) else ()))
    return found if isinstance(found, DiagonalGaussian) else None


def takes_condition(part: Any) -> bool:
    """Whether a prior, or the module made from it, depends on what the model is told about an item."""
    return getattr(part, "takes_condition", False)


def prior_module(prior: Any, latents: int, condition: int) -> nn.Module:
    """The module of a prior, which is given the width of the condition where it depends on one."""
    return prior.module(latents, condition) if takes_condition(prior) else prior.module(latents)
