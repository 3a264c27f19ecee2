"""Posteriors: descriptions that build the head from features to q(z|x); Gaussians, and their limit without noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.numerics.distributions import DiagonalGaussian, Distribution, FullGaussian, Point, full_precision
from vaescope.registry import Part, PartRegistry


@runtime_checkable
class PosteriorHead(Protocol):
    """A module from features to q(z|x)."""

    def __call__(self, features: Float[Tensor, "batch features"], mask: Float[Tensor, "latents"], /) -> Distribution:
        """The distribution of each item's code; a latent whose mask is 0 is N(0, 1), or 0 if there is no noise."""
        ...


@runtime_checkable
class Posterior(Part, Protocol):
    """Builds the head of an encoder.

    Attributes:
        deterministic: Whether the code has no noise, as in an autoencoder.
    """

    deterministic: ClassVar[bool] = False

    def head(self, features: int, latents: int) -> PosteriorHead:
        """The head from `features` features to `latents` latents."""
        ...


POSTERIORS: PartRegistry[Posterior] = PartRegistry("posterior", "vaescope.posteriors", Posterior)


@POSTERIORS.register("diagonal", summary="independent Gaussians", source="Bonheme, section 3.3")
@dataclass(frozen=True)
class Diagonal(Posterior):
    """A Gaussian with a diagonal covariance."""

    def head(self, features: int, latents: int) -> DiagonalHead:
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


@POSTERIORS.register("full", summary="a Gaussian with a full covariance", source="Rolinek et al., section 5.1")
@dataclass(frozen=True)
class Full(Posterior):
    """A Gaussian with a full covariance, given by its Cholesky factor."""

    def head(self, features: int, latents: int) -> FullHead:
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

    In a flat row of outputs, the entries of a smaller model would be at other positions. Initial weights have a
    variance of the order of 1 / (features * latents), so that the variance of a row of the matrix depends little on its
    length.
    """

    def __init__(self, features: int, latents: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(latents, latents, features))
        self.bias = nn.Parameter(torch.zeros(latents, latents))

    def forward(self, features: Float[Tensor, "batch features"]) -> Float[Tensor, "batch latents latents"]:
        square = F.linear(features, self.weight.flatten(0, 1), self.bias.flatten())
        matrix: Tensor = square.unflatten(-1, tuple(self.bias.shape))
        return matrix


@POSTERIORS.register("deterministic", summary="a point", source="Bonheme, figure 8.6")
@dataclass(frozen=True)
class Deterministic(Posterior):
    """A point; no noise, no rate."""

    deterministic: ClassVar[bool] = True

    def head(self, features: int, latents: int) -> DeterministicHead:
        return DeterministicHead(features, latents)


class DeterministicHead(nn.Module):
    """One affine head."""

    def __init__(self, features: int, latents: int) -> None:
        super().__init__()
        self.mean = nn.Linear(features, latents)

    def forward(self, features: Float[Tensor, "batch features"], mask: Float[Tensor, "latents"]) -> Point:
        return Point(full_precision(self.mean(features)) * mask)
