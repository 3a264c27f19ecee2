"""Objectives that weight the rate, keep it at a capacity, or reward the entropy of the posterior."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.models.latent_model import ForwardPass
from vaescope.numerics.distributions import DiagonalGaussian, Distribution, FullGaussian
from vaescope.objectives.objective import OBJECTIVES, Context, ScheduledObjective, Terms


@OBJECTIVES.register("beta", summary="reconstruction + beta KL; beta = 1 is the ELBO", source="Bonheme, eq. 4.25")
@dataclass(frozen=True)
class Beta(ScheduledObjective):
    """-E[log p(x|z)] + beta KL(q(z|x) || p(z)); the rate of a deterministic code is 0."""

    beta: float | Tensor = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("beta")

    def terms(self, x: Float[Tensor, "batch ..."], result: ForwardPass, context: Context) -> Terms:
        values = {"reconstruction": self.reconstruction(x, result), "rate": self.rate(result, context)}
        return Terms(values, {"reconstruction": 1.0, "rate": self.beta})


@OBJECTIVES.register("annealed", summary="reconstruction + gamma |KL - C(t)|", source="Bonheme, eq. 4.26")
@dataclass(frozen=True)
class Annealed(ScheduledObjective):
    """-E[log p(x|z)] + gamma |KL(q(z|x) || p(z)) - C|, with C rising linearly.

    The mean divergence of the batch is compared with C, as in disentanglement_lib; single examples may lie on either
    side. For a deterministic code, only the reconstruction counts.

    Attributes:
        gamma: Weight of the distance to the capacity (alpha in eq. 4.26).
        capacity: The final value of C, in nats.
        steps: Steps over which C rises from 0 to `capacity`.
    """

    gamma: float | Tensor = 1000.0
    capacity: float | Tensor = 25.0
    steps: float | Tensor = 100_000.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("gamma", "capacity")
        self.require("steps", at_least=1)

    def terms(self, x: Float[Tensor, "batch ..."], result: ForwardPass, context: Context) -> Terms:
        rate = self.rate(result, context)
        distance = torch.zeros_like(rate)
        if result.prior is not None:
            distance = (rate.mean() - self._capacity_at(context.step, rate)).abs().expand_as(rate)
        values = {
            "reconstruction": self.reconstruction(x, result),
            "rate": rate.detach(),
            "capacity_distance": distance,
        }
        return Terms(values, {"reconstruction": 1.0, "rate": 0.0, "capacity_distance": self.gamma})

    def _capacity_at(self, step: Tensor, like: Tensor) -> Tensor:
        steps, capacity = (torch.as_tensor(value).to(like) for value in (self.steps, self.capacity))
        return capacity * (step / steps).clamp(max=1.0)


@OBJECTIVES.register(
    "maximum_entropy", summary="the beta-VAE as an ELBO with an entropy bonus", source="Mathieu et al., eq. 5"
)
@dataclass(frozen=True)
class MaximumEntropy(ScheduledObjective):
    """-E[log p(x|z)] + KL(q(z|x) || p(z)) - (beta - 1)/2 log |S(x)|, S the covariance of q(z|x).

    For a Gaussian prior with mean 0 and a Gaussian posterior, it equals the objective of the beta-VAE up to a constant
    if the latent space is scaled by sqrt(beta): mean and standard deviation of the posterior are multiplied by it, and
    z is divided by it before the decoder (corollary 1). With other priors the two differ. beta = 1 is the negative
    ELBO. For a deterministic code, only the reconstruction counts.
    """

    beta: float | Tensor = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("beta")

    def terms(self, x: Float[Tensor, "batch ..."], result: ForwardPass, context: Context) -> Terms:
        rate = self.rate(result, context)
        volume = torch.zeros_like(rate) if result.prior is None else log_volume(result.posterior)
        values = {"reconstruction": self.reconstruction(x, result), "rate": rate, "log_volume": volume}
        return Terms(values, {"reconstruction": 1.0, "rate": 1.0, "log_volume": 1 - self.beta})


def log_volume(posterior: Distribution) -> Float[Tensor, "batch"]:
    """log |S| / 2: the entropy up to a constant; latents that are not in use have variance 1 and add 0."""
    if isinstance(posterior, DiagonalGaussian):
        return 0.5 * posterior.log_variance.sum(-1)
    if isinstance(posterior, FullGaussian):
        return posterior.cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return 0.5 * posterior.variance.log().sum(-1)
