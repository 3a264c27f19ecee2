"""The linear VAE, fitted in closed form: probabilistic PCA with a diagonal posterior (Bonheme, section 4.2)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vaescope.checks import finite_number
from vaescope.data.arrays import from_array
from vaescope.data.dataset import Dataset, check_complete
from vaescope.errors import DataError
from vaescope.likelihoods import GaussianDistribution
from vaescope.models.architecture import check_latents
from vaescope.models.latent_model import ForwardPass, Items, LatentModel, Noise
from vaescope.numerics import linear
from vaescope.numerics.distributions import DiagonalGaussian
from vaescope.numerics.moments import RunningMoments
from vaescope.priors import Standard

CHUNK_ITEMS = 1024


class Linear(nn.Module, LatentModel):
    """x -> N(mean, diag(variance)) -> z -> N(W z + b, gamma I), the encoder being the best one for W, b and gamma.

    The columns of W lie along the principal directions of the data, largest eigenvalue first, because a diagonal
    posterior admits no other rotation (Bonheme, eq. 4.12 to 4.15). Latents whose eigenvalue does not exceed
    beta * gamma are passive: their posterior is N(0, 1) and the decoder ignores them.
    """

    eigenvalues: Tensor
    gamma: Tensor
    beta: Tensor

    def __init__(
        self,
        loadings: Float[Tensor, "dimensions latents"],
        offset: Float[Tensor, "..."],
        eigenvalues: Float[Tensor, "latents"],
        gamma: float,
        beta: float,
    ) -> None:
        super().__init__()
        latents = loadings.shape[1]
        self.loadings = nn.Parameter(loadings, requires_grad=False)
        self.offset = nn.Parameter(offset, requires_grad=False)
        self.condition_width = 0
        self.prior = Standard().module(latents)
        self.noise = {"posterior": latents}
        self.register_buffer("eigenvalues", eigenvalues)
        self.register_buffer("gamma", loadings.new_tensor(gamma))
        self.register_buffer("beta", loadings.new_tensor(beta))
        self.register_buffer("latent_mask", loadings.new_ones(latents), persistent=False)

    @classmethod
    def fit(
        cls, x: Dataset | np.ndarray | Tensor, latents: int, gamma: float | None = None, beta: float = 1.0
    ) -> Linear:
        """Maximise E log p(x|z) - beta KL over the data, in float64.

        Args:
            x: A data set, or an array of items; a float64 table keeps its precision.
            latents: The number of latents.
            gamma: Variance of the decoder; default: the best one, for beta = 1 the maximum-likelihood value.
            beta: Weight of the KL divergence.
        """
        data = x if isinstance(x, Dataset) else from_array(x)
        check_complete(data, "Linear.fit")
        check_latents(latents, data.shape)
        beta = finite_number("beta", beta, above=0)
        gamma = None if gamma is None else finite_number("gamma", gamma, above=0)
        moments = RunningMoments.over(_rows(x, data))
        eigenvalues, directions = _principal(moments, data.name)
        if gamma is None:
            gamma = _best_gamma(eigenvalues, latents, beta, data.name)
        kept = eigenvalues[:latents].clone()
        loadings = directions[:, :latents] * linear.optimal_spectrum(kept, gamma, beta).sqrt()
        return cls(loadings, moments.mean.reshape(data.shape), kept, gamma, beta)

    @property
    def item_shape(self) -> tuple[int, ...]:
        """The shape of an item."""
        return tuple(self.offset.shape)

    @property
    def active(self) -> Bool[Tensor, "latents"]:
        """Whether the decoder uses each latent."""
        return self._masked().any(0)

    def encode(self, x: Items, condition: Tensor | None = None) -> DiagonalGaussian:
        """q(z|x), the best diagonal one (Bonheme, eq. 4.11, 4.23 and 4.24)."""
        loadings = self._masked()
        mean = linear.posterior_mean(x.flatten(1), loadings, self.offset.flatten(), self.gamma, self.beta)
        variance = linear.diagonal_posterior_variance(loadings, self.gamma, self.beta)
        return DiagonalGaussian(mean, variance.log().expand_as(mean))

    def decode(self, z: Float[Tensor, "batch latents"], condition: Tensor | None = None) -> GaussianDistribution:
        """p(x|z)."""
        change = z.to(self.loadings.dtype) @ self._masked().T
        return GaussianDistribution(self.offset + change.unflatten(1, self.offset.shape), self.gamma.log())

    def forward(self, x: Items, noise: Noise, condition: Tensor | None = None) -> ForwardPass:
        posterior = self.encode(x, condition)
        z = posterior.sample(noise["posterior"]) * self.latent_mask
        return ForwardPass(posterior, z, self.decode(z, condition), self.prior(self.latent_mask))

    def log_likelihood(self, x: Items) -> Float[Tensor, "batch"]:
        """log p(x), exactly; for beta = 1 it equals the ELBO (Bonheme, eq. 4.10)."""
        return linear.log_likelihood(x.flatten(1), self._masked(), self.offset.flatten(), self.gamma)

    def _masked(self) -> Tensor:
        return self.loadings * self.latent_mask


def _rows(x: object, data: Dataset) -> Iterator[Tensor]:
    """The items as rows; a float64 table as given, because data sets convert to float32."""
    table = x.detach().cpu().numpy() if isinstance(x, Tensor) and x.dtype == torch.float64 else x
    if isinstance(table, np.ndarray) and table.ndim == 2 and table.dtype == np.float64:
        for start in range(0, len(table), CHUNK_ITEMS):
            yield torch.from_numpy(np.array(table[start : start + CHUNK_ITEMS], dtype=np.float64))
    else:
        for chunk in data.chunks(CHUNK_ITEMS):
            yield chunk.flatten(1)


def _principal(moments: RunningMoments, name: str) -> tuple[Tensor, Tensor]:
    """Eigenvalues of the covariance of the empirical distribution, largest first, and their unit vectors.

    Eigenvalues within rounding of zero become zero. The largest entry of each vector is positive, so that the sign
    does not depend on the solver.
    """
    values, vectors = torch.linalg.eigh(moments.covariance(correction=0))
    values, vectors = values.flip(0), vectors.flip(1)
    rounding = torch.finfo(values.dtype).eps
    # Equal items far from zero leave rounding errors, which must not count as variance.
    if values[0] <= (rounding * moments.count * moments.mean.abs().max()) ** 2:
        raise DataError(f"{name}: the items must differ for principal directions to exist, but all are equal.")
    largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
    return values.where(values > rounding * len(values) * values[0], 0.0), vectors * largest.sign()


def _best_gamma(eigenvalues: Tensor, latents: int, beta: float, name: str) -> float:
    gamma = float(linear.optimal_gamma(eigenvalues, latents, beta))
    if gamma == 0:
        directions = int((eigenvalues > 0).sum())
        raise DataError(
            f"{name}: gamma has a best value only if {latents} latents leave some variance unexplained, but the data "
            f"vary in {directions} directions. Pass gamma, or choose fewer latents."
        )
    return gamma
