"""A critic that an objective trains beside the model: one vector of parameters, two optimisers, two gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from vaescope.training.optimisers import Adam

MODEL, CRITIC = "model.", "critic."
CRITIC_OPTIMISER = Adam(0.5, 0.9)


class WithCritic(nn.Module):
    """The model and its critic; to those who train it, it looks like the model."""

    def __init__(self, model: Any, critic: nn.Module) -> None:
        super().__init__()
        self.model, self.critic = model, critic

    def forward(self, *inputs: Any) -> Any:
        return self.model(*inputs)

    @property
    def latent_mask(self) -> Tensor:
        """The model's."""
        return self.model.latent_mask

    @property
    def noise(self) -> dict[str, int]:
        """The model's."""
        return self.model.noise

    @property
    def condition(self) -> Any:
        """The model's."""
        return self.model.condition

    @property
    def condition_width(self) -> int:
        """The model's."""
        return self.model.condition_width


@dataclass(frozen=True)
class Judge:
    """The critic with the weights of one member."""

    critic: nn.Module
    weights: Mapping[str, Tensor]

    @classmethod
    def of(cls, module: nn.Module, weights: Mapping[str, Tensor]) -> Judge | None:
        """The judge among a module's named weights, or None where there is no critic."""
        if not isinstance(module, WithCritic):
            return None
        own = {name.removeprefix(CRITIC): weight for name, weight in weights.items() if name.startswith(CRITIC)}
        return cls(module.critic, own)

    def __call__(self, z: Float[Tensor, "batch latents"], frozen: bool) -> Float[Tensor, "batch outputs"]:
        """What the critic says of codes; `frozen` lets no gradient reach it, which is how the model asks."""
        weights = {name: weight.detach() if frozen else weight for name, weight in self.weights.items()}
        kind = next(iter(weights.values())).dtype
        return functional_call(self.critic, weights, (z.to(kind),)).to(z.dtype)
