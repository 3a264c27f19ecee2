"""Models with an encoder and a prior: the pass from an item to its code and back (Bonheme, figure 3.1)."""

from __future__ import annotations

from collections.abc import Mapping

from jaxtyping import Float
from torch import Tensor

from vaescope.models.forward_pass import ForwardPass
from vaescope.models.latent_model import LatentModel
from vaescope.models.module import LatentModule
from vaescope.nets.net import Encoder
from vaescope.numerics.distributions import DiagonalGaussian
from vaescope.priors.prior import PriorModule
from vaescope.priors.standard import StandardPrior


class Variational(LatentModule):
    """Encoder -> posterior -> z -> decoder -> likelihood, with a prior over z.

    A subclass implements `encode`, where a condition joins the item.
    """

    encoder: Encoder
    prior: PriorModule

    def forward(
        self, x: Float[Tensor, "batch ..."], noise: Mapping[str, Tensor], condition: Tensor | None = None
    ) -> ForwardPass:
        posterior = self.encode(x, condition)
        z = posterior.sample(noise["posterior"]) * self.latent_mask
        return ForwardPass(posterior, z, self.decode(z, condition), self.prior(self.latent_mask, condition))


def gaussian_prior(model: LatentModel, condition: Tensor | None = None) -> DiagonalGaussian | None:
    """The prior of a model if it is a Gaussian other than N(0, 1); codes are measured against N(0, 1) otherwise."""
    if model.prior is None or isinstance(model.prior, StandardPrior):
        return None
    prior = model.prior(model.latent_mask, condition)
    return prior if isinstance(prior, DiagonalGaussian) else None
