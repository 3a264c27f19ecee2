"""The critic that an objective trains together with the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from vaescope.training.optimisers import Adam

CRITIC_OPTIMISER = Adam(0.5, 0.9)


@dataclass(frozen=True)
class Critic:
    """A critic with the weights of one member."""

    module: nn.Module
    weights: Mapping[str, Tensor]

    def __call__(self, z: Float[Tensor, "batch latents"], frozen: bool) -> Float[Tensor, "batch outputs"]:
        """The outputs for codes; with `frozen`, gradients reach the codes but not the critic."""
        weights = {name: weight.detach() if frozen else weight for name, weight in self.weights.items()}
        dtype = next(iter(weights.values())).dtype
        outputs: Tensor = functional_call(self.module, weights, (z.to(dtype),))
        return outputs.to(z.dtype)
