"""q(z|x) = N(mean(x), A(x) A(x)^T): the posterior of beta-VAE_Sigma, with a full covariance (Rolinek, section 5.1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.numerics.distributions import FullGaussian, full_precision
from vaescope.posteriors.posterior import Posterior
from vaescope.posteriors.registry import POSTERIORS


@POSTERIORS.register("full", summary="a Gaussian with a full covariance", source="Rolinek et al., section 5.1")
@dataclass(frozen=True)
class Full(Posterior):
    """A Gaussian with a full covariance, given by its Cholesky factor."""

    def head(self, features: int, latents: int) -> FullHead:
        """Features -> posterior."""
        return FullHead(features, latents)


class FullHead(nn.Module):
    """Heads for the mean, for the diagonal of A, and for the part below it.

    The diagonal of A is exp(log_variance / 2), as in the diagonal posterior. Latents outside the mask are N(0, 1) and
    independent of the others.
    """

    def __init__(self, features: int, latents: int) -> None:
        super().__init__()
        self.mean = nn.Linear(features, latents)
        self.log_variance = nn.Linear(features, latents)
        self.lower = SquareLinear(features, latents)

    def forward(self, features: Float[Tensor, "batch features"], mask: Float[Tensor, "latents"]) -> FullGaussian:
        mean, log_variance = full_precision(self.mean(features)), full_precision(self.log_variance(features))
        lower = full_precision(self.lower(features)) * (mask[:, None] * mask)
        diagonal = torch.exp(0.5 * log_variance * mask)
        return FullGaussian(mean * mask, torch.tril(lower, -1) + torch.diag_embed(diagonal))


class SquareLinear(nn.Module):
    """An affine map to a matrix of latents x latents, whose leading block belongs to a smaller model.

    In one long row of outputs, the numbers of a smaller model would have other places. Initial weights have a variance
    of the order of 1 / (features * latents), so that the variance of a row of the matrix depends little on its length.
    """

    def __init__(self, features: int, latents: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(latents, latents, features))
        self.bias = nn.Parameter(torch.zeros(latents, latents))

    def forward(self, features: Float[Tensor, "batch features"]) -> Float[Tensor, "batch latents latents"]:
        square = F.linear(features, self.weight.flatten(0, 1), self.bias.flatten())
        matrix: Tensor = square.unflatten(-1, tuple(self.bias.shape))
        return matrix
