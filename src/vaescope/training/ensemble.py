"""The members of an ensemble as one program: the loss of a member is a pure function of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call

from vaescope.models import ForwardPass, LatentModule
from vaescope.objectives import Context, Objective, strengths, with_strengths
from vaescope.training.critic import CRITIC_OPTIMISER, Critic
from vaescope.training.layout import Layout
from vaescope.training.optimisers import Slots
from vaescope.training.plan import PRECISIONS, Member, Plan


class MemberInputs(NamedTuple):
    """What differs between members, stacked: inputs of the program, so that other members can use it."""

    masks: Float[Tensor, "members latents"]
    strengths: dict[str, Float[Tensor, "members"]]
    rates: Float[Tensor, "members 1"]
    seeds: Int[Tensor, "members"]

    @classmethod
    def of(cls, members: tuple[Member, ...], latents: int, plan: Plan, device: torch.device) -> MemberInputs:
        """The inputs of `members` inside a model with `latents` latents."""
        kept, _, _ = PRECISIONS[plan.precision]
        own = torch.tensor([member.latents for member in members])
        values = [strengths(member.objective) for member in members]
        return cls(
            (torch.arange(latents) < own[:, None]).to(device=device, dtype=kept),
            {name: torch.tensor([v[name] for v in values], dtype=kept, device=device) for name in values[0]},
            torch.tensor([[member.learning_rate] for member in members], dtype=kept, device=device),
            torch.tensor([member.seed for member in members], device=device),
        )


@dataclass(frozen=True)
class Ensemble:
    """A model without weights, the form of its objective, and what differs between members.

    Attributes:
        model: As wide as the widest member; the masks of `inputs` select each member's latents.
        critic: The critic of the objective, if it has one.
        items: Number of training items.
        noise: The streams of normal noise that model and objective take, and the columns of each.
    """

    model: LatentModule
    critic: nn.Module | None
    items: int
    noise: dict[str, int]
    layout: Layout
    objective: Objective
    plan: Plan
    inputs: MemberInputs

    @classmethod
    def of(
        cls,
        model: LatentModule,
        critic: nn.Module | None,
        members: tuple[Member, ...],
        plan: Plan,
        device: torch.device,
        items: int,
    ) -> Ensemble:
        """The ensemble of `members` inside `model`, for training on `items` items."""
        kept, _, _ = PRECISIONS[plan.precision]
        latents, objective = len(model.latent_mask), members[0].objective
        return cls(
            model.to(device=device, dtype=kept),
            None if critic is None else critic.to(device=device, dtype=kept),
            items,
            {**model.noise, **objective.noise(latents)},
            Layout.of(model, critic),
            objective,
            plan,
            MemberInputs.of(members, latents, plan, device),
        )

    def assign_slots(self, members: tuple[Member, ...]) -> None:
        """Replace the members, in the same tensors, which compiled programs hold."""
        latents, device = self.inputs.masks.shape[1], self.inputs.masks.device
        other = MemberInputs.of(members, latents, self.plan, device)
        for name, values in self.inputs.strengths.items():
            values.copy_(other.strengths[name])
        self.inputs.masks.copy_(other.masks)
        self.inputs.rates.copy_(other.rates)
        self.inputs.seeds.copy_(other.seeds)

    def update(
        self,
        apply: Callable[..., None],
        parameters: Float[Tensor, "members size"],
        gradient: Float[Tensor, "members size"],
        slots: Slots,
        step: Tensor,
        inputs: MemberInputs,
    ) -> None:
        """Do one optimiser step in place with `apply`; the critic has another optimiser and learning rate."""
        if self.critic is None:
            apply(self.plan.optimiser, parameters, gradient, slots, step, inputs.rates)
            return
        own = self.layout.model_size
        critic_rates = inputs.strengths["critic_rate"].reshape(-1, 1)
        parts = ((slice(own), self.plan.optimiser, inputs.rates), (slice(own, None), CRITIC_OPTIMISER, critic_rates))
        for columns, optimiser, rates in parts:
            part = {name: slot[:, columns] for name, slot in slots.items()}
            apply(optimiser, parameters[:, columns], gradient[:, columns], part, step, rates)

    def terms(
        self,
        vector: Float[Tensor, "size"],
        buffers: Mapping[str, Tensor],
        mask: Float[Tensor, "latents"],
        values: Mapping[str, Tensor],
        x: Float[Tensor, "batch ..."],
        noise: Mapping[str, Tensor],
        step: Int[Tensor, ""],
    ) -> dict[str, Float[Tensor, ""]]:
        """The loss and every named term of one member on one batch, averaged over the batch.

        Args:
            values: The strengths of the member's objective.
            noise: The noise streams, and the condition under 'condition' if the model takes one.
        """
        kept, computed, _ = PRECISIONS[self.plan.precision]
        weights = self.layout.unpack(vector.to(computed))
        state = {**weights.model, **buffers, "latent_mask": mask.to(computed)}
        condition = noise["condition"].to(computed) if "condition" in noise else None
        result: ForwardPass = functional_call(self.model, state, (x.to(computed), noise, condition))
        critic = None if self.critic is None else Critic(self.critic, weights.critic)
        context = Context(step, self.items, mask, noise, critic)
        return with_strengths(self.objective, values)(x.to(kept), result, context).means()


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Switch a model that is being trained to evaluation mode for a while."""
    model.eval()
    try:
        yield
    finally:
        model.train()


MAX_MEMBERS = 64
# On a CPU a small net spends its time between operations, which stacked members share; a large net does not.
MAX_STACKED_PARAMETERS = 100_000


def group_members(members: Sequence[Member], module: nn.Module, device: torch.device) -> list[list[int]]:
    """Positions of the members, in groups that train as one program."""
    positions = list(range(len(members)))
    stacked = device.type == "cuda" or Layout.of(module).size <= MAX_STACKED_PARAMETERS
    size = MAX_MEMBERS if stacked else 1
    return [positions[start : start + size] for start in range(0, len(positions), size)]
