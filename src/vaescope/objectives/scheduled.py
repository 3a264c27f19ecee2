"""The base of our objectives: the reconstruction, the rate, warm-up and free bits."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.checks import finite_number
from vaescope.models.latent_model import ForwardPass
from vaescope.numerics.distributions import latent_rate
from vaescope.objectives.objective import Context, Objective, Terms

RECONSTRUCTION = "reconstruction"


@dataclass(frozen=True, kw_only=True)
class ScheduledObjective(Objective):
    """An objective with warm-up and free bits; a subclass implements `terms`.

    Attributes:
        warm_up: Steps over which the weight of every term but the reconstruction rises from 0 to its full value.
        free_bits: Nats of the mean rate of each latent that cost nothing (Kingma et al., 2016, eq. 15).
    """

    warm_up: float | Tensor = 0.0
    free_bits: float | Tensor = 0.0

    def __post_init__(self) -> None:
        self.require("warm_up", "free_bits")

    def require(self, *names: str, at_least: float = 0.0) -> None:
        """Raise an error if one of these strengths is a number that is not finite or below `at_least`."""
        for name in names:
            value = getattr(self, name)
            if not isinstance(value, Tensor):
                object.__setattr__(self, name, finite_number(name, value, at_least=at_least))

    def noise(self, latents: int) -> dict[str, int]:
        """No noise."""
        return {}

    def critic(self, latents: int) -> nn.Module | None:
        """No critic."""
        return None

    def terms(self, x: Float[Tensor, "batch ..."], result: ForwardPass, context: Context) -> Terms:
        """The named terms and their weights after warm-up."""
        raise NotImplementedError

    def __call__(self, x: Float[Tensor, "batch ..."], result: ForwardPass, context: Context) -> Terms:
        terms = self.terms(x, result, context)
        ramp = self._ramp(context)
        weights = {name: weight if name == RECONSTRUCTION else ramp * weight for name, weight in terms.weights.items()}
        return Terms(terms.values, weights)

    def reconstruction(self, x: Float[Tensor, "batch ..."], result: ForwardPass) -> Float[Tensor, "batch"]:
        """-log p(x|z) of each example."""
        return -result.likelihood.log_prob(x)

    def rate(self, result: ForwardPass, context: Context) -> Float[Tensor, "batch"]:
        """KL(q(z|x) || p(z)) of each example, less the free bits; 0 for a deterministic code, which has no prior."""
        if result.prior is None:
            return torch.zeros_like(result.z[:, 0])
        rates = latent_rate(result.posterior, result.prior, result.z)
        free = torch.as_tensor(self.free_bits, dtype=rates.dtype, device=rates.device)
        # A latent below its free bits counts as these and has no gradient, as max(mean rate, free bits).
        spared = (rates.mean(0) < free) & (free > 0)
        room = free * (context.mask if rates.shape[1] == len(context.mask) else 1.0)
        return torch.where(spared, room, rates).sum(1)

    def _ramp(self, context: Context) -> Tensor:
        steps = torch.as_tensor(self.warm_up, dtype=torch.float32, device=context.step.device)
        return ((context.step + 1) / steps.clamp(min=1.0)).clamp(max=1.0)
