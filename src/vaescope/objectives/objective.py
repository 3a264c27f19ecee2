"""Objectives: named terms for each example, whose weighted sum is the loss; the contract, and the base class of the
built-in objectives.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vaescope.checks import finite_number
from vaescope.models.latent_model import ForwardPass
from vaescope.numerics.distributions import latent_rate
from vaescope.registry import Part, PartRegistry

RECONSTRUCTION = "reconstruction"
SCHEDULES = ("warm_up", "free_bits")


@dataclass(frozen=True)
class Context:
    """What an objective may use in addition to the batch and the forward pass.

    Attributes:
        step: Number of steps done.
        items: Number of training items.
        mask: 1 for each latent in use.
        noise: The noise streams of the objective.
        critic: `critic(z, frozen)` gives the outputs of the objective's critic; with `frozen`, gradients do not reach
            the critic. None for an objective without a critic.
    """

    step: Int[Tensor, ""]
    items: int
    mask: Float[Tensor, "latents"]
    noise: Mapping[str, Tensor] = field(default_factory=dict)
    critic: Callable[[Tensor, bool], Tensor] | None = None


@dataclass(frozen=True)
class Terms:
    """One number for each example and name; the loss is the batch mean of their weighted sum."""

    values: dict[str, Float[Tensor, "batch"]]
    weights: dict[str, float | Tensor]

    @property
    def per_example(self) -> Float[Tensor, "batch"]:
        """The weighted sum of the terms of each example."""
        return torch.stack([self.weights[name] * value for name, value in self.values.items()]).sum(0)

    @property
    def loss(self) -> Float[Tensor, ""]:
        """The number that training minimises."""
        return self.per_example.mean()

    def means(self) -> dict[str, Float[Tensor, ""]]:
        """The batch mean of the loss and of every term, as recorded in the history."""
        return {"loss": self.loss, **{name: value.mean() for name, value in self.values.items()}}


@runtime_checkable
class Objective(Part, Protocol):
    """A training objective.

    Fields that are numbers are its strengths: members of an ensemble may differ in them, and during training they are
    tensors. All other fields are the same for all members.
    """

    def noise(self, latents: int) -> dict[str, int]:
        """The streams of standard normal noise that `__call__` reads from the context, and the columns of each."""
        ...

    def critic(self, latents: int) -> nn.Module | None:
        """A net that is trained together with the model, on codes with `latents` latents; None for most objectives."""
        ...

    def __call__(self, x: Float[Tensor, "batch ..."], result: ForwardPass, context: Context) -> Terms:
        """The named terms of a batch and their weights."""
        ...


OBJECTIVES: PartRegistry[Objective] = PartRegistry("objective", "vaescope.objectives", Objective)


@dataclass(frozen=True, kw_only=True)
class ScheduledObjective(Objective):
    """An objective with warm-up and free bits; a subclass implements `terms`.

    Attributes:
        warm_up: Steps over which the weight of every term but the reconstruction rises from 0 to its full value.
        free_bits: Nats of the mean rate of each latent that are not penalised (Kingma et al., 2016, eq. 15).
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
        """KL(q(z|x) || p(z)) of each example, minus the free bits; 0 for a deterministic code, which has no prior."""
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


def strengths(objective: Objective) -> dict[str, float]:
    """The fields of the objective that are numbers, by name; the schedules come last."""
    names = sorted((field.name for field in dataclasses.fields(objective)), key=lambda name: name in SCHEDULES)
    values = {name: getattr(objective, name) for name in names}
    return {name: value for name, value in values.items() if type(value) in (int, float)}


def form(objective: Objective) -> tuple[object, ...]:
    """The class of the objective and its fields that are not numbers, which members of an ensemble share."""
    numbers = strengths(objective)
    others = [field.name for field in dataclasses.fields(objective) if field.name not in numbers]
    return type(objective), *((name, getattr(objective, name)) for name in others)


def in_words(objective: Objective) -> str:
    """The strengths in use as text, for instance 'beta 4, warm_up 100'."""
    return ", ".join(f"{name} {value:g}" for name, value in strengths_in_use(objective).items())


def strengths_in_use(objective: Objective) -> dict[str, float]:
    """The strengths, without schedules that are off."""
    return {name: value for name, value in strengths(objective).items() if value or name not in SCHEDULES}


def with_strengths(objective: Objective, values: Mapping[str, Tensor]) -> Objective:
    """The same objective with tensors as its strengths."""
    return dataclasses.replace(objective, **values)
