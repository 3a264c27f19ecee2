"""Objectives that penalise the total correlation of the codes, by minibatches or by a critic (Bonheme, eq. 4.28)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import log_softmax

from vaescope.errors import ConfigurationError, unknown_name
from vaescope.models.latent_model import ForwardPass
from vaescope.nets.mlp import hidden_layers
from vaescope.nets.net import check_sizes
from vaescope.numerics import gaussian
from vaescope.numerics.aggregate import ESTIMATORS, Estimator, aggregate
from vaescope.numerics.distributions import Distribution
from vaescope.objectives.objective import OBJECTIVES, Context, ScheduledObjective, Terms

SHUFFLE = "objective/shuffle"
CRITIC_SLOPE = 0.2


@OBJECTIVES.register(
    "beta_tc", summary="reconstruction + KL + (beta - 1) TC by minibatches", source="Bonheme, eq. 4.29"
)
@dataclass(frozen=True)
class BetaTC(ScheduledObjective):
    """-E[log p(x|z)] + KL(q(z|x) || p(z)) + (beta - 1) KL(q(z) || prod_j q(z_j)); beta = 1 is the negative ELBO.

    The history has the decomposition of the rate (Chen et al., 2018, eq. 2) into index-code mutual information, total
    correlation and dimension-wise rate at the sample z; they add up to log q(z|x) - log p(z). They are 0 for a
    deterministic code.

    Attributes:
        beta: Weight of the total correlation.
        estimator: How q(z) is estimated from a batch: `weighted` (eq. 4.29), `stratified` (unbiased) or `plain`
            (disentanglement_lib). `weighted` and `plain` differ by a constant, so they give the same training.
    """

    beta: float | Tensor = 6.0
    estimator: Estimator = "weighted"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("beta")
        if self.estimator not in ESTIMATORS:
            raise unknown_name("estimator", self.estimator, ESTIMATORS)

    def terms(self, x: Float[Tensor, "batch ..."], result: ForwardPass, context: Context) -> Terms:
        rate = self.rate(result, context)
        zero = torch.zeros_like(rate)
        information, correlation, dimensions = (
            (zero, zero, zero) if result.prior is None else self._parts(result, result.prior, context)
        )
        values = {
            "reconstruction": self.reconstruction(x, result),
            "rate": rate,
            "total_correlation": correlation,
            "index_code_information": information.detach(),
            "dimension_wise_rate": dimensions.detach(),
        }
        shown = {"index_code_information": 0.0, "dimension_wise_rate": 0.0}
        return Terms(values, {"reconstruction": 1.0, "rate": 1.0, "total_correlation": self.beta - 1, **shown})

    def _parts(self, result: ForwardPass, prior: Distribution, context: Context) -> tuple[Tensor, Tensor, Tensor]:
        found = aggregate(result.posterior, result.z, context.items, self.estimator)
        # Latents that are not in use are N(0, 1) in the posterior and in the prior, and no part of the code.
        unused = gaussian.log_density(result.z, torch.zeros_like(result.z), torch.zeros_like(result.z))
        unused = (unused * (1 - context.mask)).sum(-1)
        product = (found.marginals * context.mask).sum(-1)
        information = result.posterior.log_prob(result.z) - found.joint
        return information, found.joint - unused - product, product + unused - prior.log_prob(result.z)


@OBJECTIVES.register("factor", summary="reconstruction + KL + gamma TC by a critic", source="Bonheme, eq. 4.28")
@dataclass(frozen=True)
class Factor(ScheduledObjective):
    """Reconstruction + rate + gamma TC; the total correlation is the difference of the critic's two logits.

    The critic (6 layers of 1000, LeakyReLU .2, as in disentanglement_lib) learns at every step from the same codes.
    The gradient of the model does not reach the critic, nor the reverse. The history has its loss as `critic`.

    Attributes:
        gamma: Weight of the total correlation.
        critic_rate: Learning rate of the critic, whose Adam has beta1 = .5 and beta2 = .9.
        critic_widths: Units of the layers of the critic.
    """

    gamma: float | Tensor = 10.0
    critic_rate: float | Tensor = 1e-4
    critic_widths: tuple[int, ...] = (1000,) * 6

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("gamma", "critic_rate")
        check_sizes("critic_widths", self.critic_widths)

    def noise(self, latents: int) -> dict[str, int]:
        """Numbers whose ranks shuffle each latent over the batch."""
        return {SHUFFLE: latents}

    def critic(self, latents: int) -> nn.Module:
        """Codes -> two logits, genuine and shuffled."""
        widths = (latents, *self.critic_widths)
        hidden = hidden_layers(widths, partial(nn.LeakyReLU, CRITIC_SLOPE))
        return nn.Sequential(*hidden, nn.Linear(widths[-1], 2))

    def terms(self, x: Float[Tensor, "batch ..."], result: ForwardPass, context: Context) -> Terms:
        reconstruction, rate = self.reconstruction(x, result), self.rate(result, context)
        if context.critic is None:
            raise ConfigurationError("objective 'factor' needs its critic, got none. Train with fit or a Trainer.")
        if result.prior is None:
            correlation, critic = torch.zeros_like(rate), torch.zeros_like(rate)
        else:
            logits = context.critic(result.z, True)
            correlation = logits[:, 0] - logits[:, 1]
            critic = critic_loss(context.critic, result.z.detach(), context.noise[SHUFFLE])
        values = {"reconstruction": reconstruction, "rate": rate, "total_correlation": correlation, "critic": critic}
        return Terms(values, {"reconstruction": 1.0, "rate": 1.0, "total_correlation": self.gamma, "critic": 1.0})


def critic_loss(
    critic: Callable[[Tensor, bool], Tensor], z: Float[Tensor, "batch latents"], noise: Float[Tensor, "batch latents"]
) -> Float[Tensor, "batch"]:
    """The cross-entropy of codes against codes with latents shuffled over the batch (Kim and Mnih, alg. 1)."""
    shuffled = torch.gather(z, 0, noise.argsort(0))
    genuine = log_softmax(critic(z, False), dim=1)[:, 0]
    permuted = log_softmax(critic(shuffled, False), dim=1)[:, 1]
    return -0.5 * (genuine + permuted)
