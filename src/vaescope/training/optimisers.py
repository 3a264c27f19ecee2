"""Adam, AMSGrad and Adagrad on parameter vectors, the same formulas as PyTorch's, for many members at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.checks import finite_number
from vaescope.errors import ConfigurationError
from vaescope.registry import Part, PartRegistry

BLOCK_SIZE = 2**16  # numbers; a block of parameters, gradient and moments fits into the cache of a core

Slots = dict[str, Float[Tensor, "members size"]]


class Optimiser(Part, Protocol):
    """Updates the parameters of all members at once.

    Attributes:
        slots: Names of the tensors kept between steps, each of the size of the parameters and initially zero.
    """

    slots: ClassVar[tuple[str, ...]]

    def update(self, parameters: Tensor, gradient: Tensor, slots: Slots, step: Tensor, rate: Tensor) -> None:
        """One step in place; `step` counts from 0, `rate` is one learning rate for each member."""
        ...


OPTIMISERS: PartRegistry[Optimiser] = PartRegistry("optimiser", "vaescope.optimisers", Optimiser)


@OPTIMISERS.register("adam", summary="adaptive moments", source="Kingma and Ba, 2015")
@dataclass(frozen=True)
class Adam(Optimiser):
    """Kingma and Ba (2015)."""

    slots: ClassVar[tuple[str, ...]] = ("first", "second")

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        _check(self.epsilon, beta1=self.beta1, beta2=self.beta2)

    def update(self, parameters: Tensor, gradient: Tensor, slots: Slots, step: Tensor, rate: Tensor) -> None:
        """One step in place, scaled by the last of the slots."""
        count = (step + 1).to(parameters.dtype)
        scale = slots[self.slots[-1]]
        slots["first"].lerp_(gradient, 1 - self.beta1)
        slots["second"].mul_(self.beta2).addcmul_(gradient, gradient, value=1 - self.beta2)
        if scale is not slots["second"]:
            scale.copy_(torch.maximum(scale, slots["second"]))
        root = scale.sqrt() / torch.sqrt(1 - self.beta2**count) + self.epsilon
        parameters.sub_(rate / (1 - self.beta1**count) * slots["first"] / root)


@OPTIMISERS.register("amsgrad", summary="Adam with the largest second moment so far", source="Reddi et al., 2018")
@dataclass(frozen=True)
class AMSGrad(Adam):
    """Reddi, Kale and Kumar (2018): Adam with the largest second moment so far."""

    slots: ClassVar[tuple[str, ...]] = ("first", "second", "largest")


@OPTIMISERS.register("adagrad", summary="adaptive learning rates", source="Duchi et al., 2011")
@dataclass(frozen=True)
class Adagrad(Optimiser):
    """Duchi, Hazan and Singer (2011)."""

    slots: ClassVar[tuple[str, ...]] = ("sum",)

    epsilon: float = 1e-10

    def __post_init__(self) -> None:
        _check(self.epsilon)

    def update(self, parameters: Tensor, gradient: Tensor, slots: Slots, step: Tensor, rate: Tensor) -> None:
        """One step in place."""
        slots["sum"].addcmul_(gradient, gradient)
        parameters.sub_(rate * gradient / (slots["sum"].sqrt() + self.epsilon))


def apply(
    optimiser: Optimiser,
    parameters: Float[Tensor, "members size"],
    gradient: Float[Tensor, "members size"],
    slots: Slots,
    step: Int[Tensor, ""],
    rate: Float[Tensor, "members 1"],
    block: int | None = None,
) -> None:
    """One step, `block` parameters at a time, so that on a CPU they fit into the cache; default: all."""
    if block is None:
        optimiser.update(parameters, gradient, slots, step, rate)
        return
    for start in range(0, parameters.shape[1], block):
        part = slice(start, start + block)
        moments = {name: slot[:, part] for name, slot in slots.items()}
        optimiser.update(parameters[:, part], gradient[:, part], moments, step, rate)


def apply_fused(
    optimiser: Optimiser,
    parameters: Float[Tensor, "1 size"],
    gradient: Float[Tensor, "1 size"],
    slots: Slots,
    step: Int[Tensor, ""],
    rate: Float[Tensor, "1 1"],
) -> None:
    """`apply` for one member, in one kernel of torch where it has one: for Adam and AMSGrad in float32."""
    kinds: tuple[type, ...] = (Adam, AMSGrad)  # a subclass may have another formula
    if type(optimiser) not in kinds or parameters.dtype != torch.float32:
        apply(optimiser, parameters, gradient, slots, step, rate)
        return
    assert isinstance(optimiser, Adam)
    first, second, *largest = (slots[name][0] for name in optimiser.slots)
    torch._fused_adam_(
        [parameters[0]],
        [gradient[0]],
        [first],
        [second],
        largest,
        [(step + 1).to(torch.float32)],
        lr=rate[0, 0],
        beta1=optimiser.beta1,
        beta2=optimiser.beta2,
        weight_decay=0.0,
        eps=optimiser.epsilon,
        amsgrad=bool(largest),
        maximize=False,
    )


def _check(epsilon: float, **moments: float) -> None:
    for name, value in moments.items():
        if not 0 <= finite_number(name, value) < 1:
            raise ConfigurationError(f"{name} must lie in [0, 1), got {value!r}.")
    finite_number("epsilon", epsilon, above=0)
