"""q(z|x) = N(mean(x), diag(variance(x))): the posterior of the standard VAE (Bonheme, section 3.3)."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from vaescope.numerics.distributions import DiagonalGaussian, full_precision
from vaescope.posteriors.posterior import Posterior
from vaescope.posteriors.registry import POSTERIORS


@POSTERIORS.register("diagonal", summary="independent Gaussians", source="Bonheme, section 3.3")
@dataclass(frozen=True)
class Diagonal(Posterior):
    """A Gaussian with a diagonal covariance."""

    def head(self, features: int, latents: int) -> DiagonalHead:
        """Features -> posterior."""
        return DiagonalHead(features, latents)


class DiagonalHead(nn.Module):
    """Two affine heads, one for the mean and one for the log-variance.

    Latents outside the mask are N(0, 1), as in a standard prior, so their rate is 0.
    """

    def __init__(self, features: int, latents: int) -> None:
        super().__init__()
        self.mean = nn.Linear(features, latents)
        self.log_variance = nn.Linear(features, latents)

    def forward(self, features: Float[Tensor, "batch features"], mask: Float[Tensor, "latents"]) -> DiagonalGaussian:
        mean, log_variance = full_precision(self.mean(features)), full_precision(self.log_variance(features))
        return DiagonalGaussian(mean * mask, log_variance * mask)
