"""What an objective may look at beside the batch and the pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Context:
    """The step, the number of training items, the latents in use, and the noise that the objective asked for.

    `judge(z, frozen)` asks the critic of an objective that has one, without or with a gradient to it.
    """

    step: Int[Tensor, ""]
    items: int
    mask: Float[Tensor, "latents"]
    noise: Mapping[str, Tensor] = field(default_factory=dict)
    judge: Callable[[Tensor, bool], Tensor] | None = None
