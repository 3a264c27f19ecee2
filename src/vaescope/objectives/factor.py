"""FactorVAE (Bonheme, eq. 4.28; Kim and Mnih, 2018): a critic tells codes from codes whose latents were shuffled."""

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
from vaescope.objectives.context import Context
from vaescope.objectives.objective import Objective
from vaescope.objectives.registry import OBJECTIVES
from vaescope.objectives.strengths import require
from vaescope.objectives.terms import Terms

SHUFFLE = "objective/shuffle"
SLOPE = 0.2


@OBJECTIVES.register("factor", summary="reconstruction + KL + gamma TC by a critic", source="Bonheme, eq. 4.28")
@dataclass(frozen=True)
class Factor(Objective):
    """Reconstruction + rate + gamma TC, the total correlation being what the critic's two logits differ by.

    The critic (6 layers of 1000, LeakyReLU .2, as in disentanglement_lib) learns at every step from the same codes: the
    model's gradient does not reach it, nor its own the model. Its loss, `critic`, is kept in the history.

    Attributes:
        gamma: Weight of the total correlation.
        critic_rate: The critic's learning rate; its Adam has the moments .5 and .9.
        critic_widths: Units of its layers.
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
        """Numbers whose order shuffles each latent over the batch."""
        return {SHUFFLE: latents}

    def critic(self, latents: int) -> nn.Module:
        """Codes -> two logits: as they come, or shuffled."""
        widths = (latents, *self.critic_widths)
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.LeakyReLU(SLOPE)]
        return nn.Sequential(*layers, nn.Linear(widths[-1], 2))

    def terms(self, x: Float[Tensor, "batch ..."], result: ForwardPass, context: Context) -> Terms:
        reconstruction, rate = self.reconstruction(x, result), self.rate(result, context)
        if context.judge is None:
            raise ConfigurationError("the objective factor needs its critic: train it with fit or a Trainer.")
        if result.prior is None:
            correlation, critic = torch.zeros_like(rate), torch.zeros_like(rate)
        else:
            logits = context.judge(result.z, True)
            correlation = logits[:, 0] - logits[:, 1]
            critic = critic_loss(context.judge, result.z.detach(), context.noise[SHUFFLE])
        values = {"reconstruction": reconstruction, "rate": rate, "total_correlation": correlation, "critic": critic}
        return Terms(values, {"reconstruction": 1.0, "rate": 1.0, "total_correlation": self.gamma, "critic": 1.0})


def critic_loss(
    judge: Callable[[Tensor, bool], Tensor], z: Float[Tensor, "batch latents"], noise: Float[Tensor, "batch latents"]
) -> Float[Tensor, "batch"]:
    """The cross-entropy of telling codes from codes with latents shuffled over the batch (Kim and Mnih, alg. 1)."""
    shuffled = torch.gather(z, 0, noise.argsort(0))
    genuine = log_softmax(judge(z, False), dim=1)[:, 0]
    permuted = log_softmax(judge(shuffled, False), dim=1)[:, 1]
    return -0.5 * (genuine + permuted)
