"""Adam, AMSGrad and Adagrad on parameter vectors, the same formulas as PyTorch's, for many members at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.checks import finite_number
from vaescope.errors import ConfigurationError
from vaescope.registry import PartRegistry

BLOCK = 2**16  # numbers; a block of parameters, gradient and moments stays in a core's cache

Slots = dict[str, Float[Tensor, "members size"]]


OPTIMISERS: PartRegistry[Any] = PartRegistry("optimiser", "vaescope.optimisers")


@OPTIMISERS.register("adam", summary="adaptive moments", source="Kingma and Ba, 2015")
@dataclass(frozen=True)
class Adam:
    """Kingma and Ba (2015)."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        _check(self)

    slots = ("first", "second")

    def update(self, parameters: Tensor, gradient: Tensor, slots: Slots, step: Tensor, rate: Tensor) -> None:
        """One step in place; `step` counts from 0, `rate` is one learning rate for each member."""
        _adam(self, parameters, gradient, slots, step, rate, slots["second"])


@OPTIMISERS.register("amsgrad", summary="Adam with the largest second moment so far", source="Reddi et al., 2018")
@dataclass(frozen=True)
class AMSGrad:
    """Reddi, Kale and Kumar (2018): Adam with the largest second moment so far."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        _check(self)

    slots = ("first", "second", "largest")

    def update(self, parameters: Tensor, gradient: Tensor, slots: Slots, step: Tensor, rate: Tensor) -> None:
        """One step in place."""
        _adam(self, parameters, gradient, slots, step, rate, slots["largest"])


@OPTIMISERS.register("adagrad", summary="adaptive learning rates", source="Duchi et al., 2011")
@dataclass(frozen=True)
class Adagrad:
    """Duchi, Hazan and Singer (2011)."""

    epsilon: float = 1e-10

    def __post_init__(self) -> None:
        _check(self)

    slots = ("sum",)

    def update(self, parameters: Tensor, gradient: Tensor, slots: Slots, step: Tensor, rate: Tensor) -> None:
        """One step in place."""
        slots["sum"].addcmul_(gradient, gradient)
        parameters.sub_(rate * gradient / (slots["sum"].sqrt() + self.epsilon))


def empty_slots(optimiser: Any, parameters: Float[Tensor, "members size"]) -> Slots:
    """The optimiser's state before the first step."""
    return {name: torch.zeros_like(parameters) for name in optimiser.slots}


def apply_at_once(
    optimiser: Any,
    parameters: Float[Tensor, "members size"],
    gradient: Float[Tensor, "members size"],
    slots: Slots,
    step: Int[Tensor, ""],
    rate: Float[Tensor, "members 1"],
) -> None:
    """One step over all parameters."""
    optimiser.update(parameters, gradient, slots, step, rate)


def apply_in_blocks(
    optimiser: Any,
    parameters: Float[Tensor, "members size"],
    gradient: Float[Tensor, "members size"],
    slots: Slots,
    step: Int[Tensor, ""],
    rate: Float[Tensor, "members 1"],
) -> None:
    """One step, a block at a time, so that on a CPU the passes of the formula meet the cache."""
    for start in range(0, parameters.shape[1], BLOCK):
        block = slice(start, start + BLOCK)
        part = {name: slot[:, block] for name, slot in slots.items()}
        optimiser.update(parameters[:, block], gradient[:, block], part, step, rate)


def _adam(
    optimiser: Adam | AMSGrad,
    parameters: Tensor,
    gradient: Tensor,
    slots: Slots,
    step: Tensor,
    rate: Tensor,
    scale: Tensor,
) -> None:
    count = (step + 1).to(parameters.dtype)
    slots["first"].lerp_(gradient, 1 - optimiser.beta1)
    slots["second"].mul_(optimiser.beta2).addcmul_(gradient, gradient, value=1 - optimiser.beta2)
    if scale is not slots["second"]:
        scale.copy_(torch.maximum(scale, slots["second"]))
    root = scale.sqrt() / torch.sqrt(1 - optimiser.beta2**count) + optimiser.epsilon
    parameters.sub_(rate / (1 - optimiser.beta1**count) * slots["first"] / root)


def _check(optimiser: Any) -> None:
    for name in ("beta1", "beta2"):
        if not 0 <= finite_number(name, getattr(optimiser, name, 0.0)) < 1:
            raise ConfigurationError(f"{name} must lie in [0, 1), got {getattr(optimiser, name)!r}.")
    finite_number("epsilon", optimiser.epsilon, above=0)
