"""Extra inputs to an objective."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Context:
    """What an objective may use in addition to the batch and the forward pass.

    Attributes:
        step: Number of steps done.
        items: Number of training items.
        mask: 1 for each latent in use.
        noise: The noise streams that the objective asks for.
        critic: `critic(z, frozen)` gives the outputs of the objective's critic; with `frozen`, gradients do not reach
            the critic. None for an objective without a critic.
    """

    step: Int[Tensor, ""]
    items: int
    mask: Float[Tensor, "latents"]
    noise: Mapping[str, Tensor] = field(default_factory=dict)
    critic: Callable[[Tensor, bool], Tensor] | None = None
