"""FactorVAE (Bonheme, eq. 4.28; Kim and Mnih, 2018): a critic separates codes from codes with shuffled latents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import log_softmax

from vaescope.errors import ConfigurationError
from vaescope.models.forward_pass import ForwardPass
from vaescope.nets.sizes import check_sizes
from vaescope.objectives.objective import Context, Terms
from vaescope.objectives.registry import OBJECTIVES
from vaescope.objectives.scheduled import ScheduledObjective
from vaescope.objectives.strengths import require

SHUFFLE = "objective/shuffle"
CRITIC_SLOPE = 0.2


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
        require(self, "gamma", at_least=0)
        require(self, "critic_rate", at_least=0)
        check_sizes("critic_widths", self.critic_widths)

    def noise(self, latents: int) -> dict[str, int]:
        """Numbers whose ranks shuffle each latent over the batch."""
        return {SHUFFLE: latents}

    def critic(self, latents: int) -> nn.Module:
        """Codes -> two logits, genuine and shuffled."""
        widths = (latents, *self.critic_widths)
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.LeakyReLU(CRITIC_SLOPE)]
        return nn.Sequential(*layers, nn.Linear(widths[-1], 2))

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
