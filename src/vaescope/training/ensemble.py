"""The members of an ensemble as one program: the loss of a member is a pure function of its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, vmap

from vaescope.models import ForwardPass, LatentModule
from vaescope.models.module import evaluation_mode
from vaescope.numerics import counter
from vaescope.objectives import Context, Objective, strengths, with_strengths
from vaescope.training.batches import Batches, as_channels_last
from vaescope.training.checkpoint import State, first_member
from vaescope.training.layout import Layout
from vaescope.training.optimisers import Adam, Slots, apply
from vaescope.training.plan import PRECISIONS, Member, Plan

CRITIC_OPTIMISER = Adam(0.5, 0.9)
MAX_MEMBERS = 64
# On a CPU a small net spends its time between operations, which stacked members share; a large net does not.
MAX_STACKED_PARAMETERS = 100_000


@dataclass(frozen=True)
class Critic:
    """The critic that an objective trains together with the model, with the weights of one member."""

    module: nn.Module
    weights: Mapping[str, Tensor]

    def __call__(self, z: Float[Tensor, "batch latents"], frozen: bool) -> Float[Tensor, "batch outputs"]:
        """The outputs for codes; with `frozen`, gradients reach the codes but not the critic."""
        weights = {name: weight.detach() if frozen else weight for name, weight in self.weights.items()}
        dtype = next(iter(weights.values())).dtype
        outputs: Tensor = functional_call(self.module, weights, (z.to(dtype),))
        return outputs.to(z.dtype)


class MemberInputs(NamedTuple):
    """What differs between members, stacked: inputs of the program, so that other members can use it."""

    masks: Float[Tensor, "members latents"]
    strengths: dict[str, Float[Tensor, "members"]]
    rates: Float[Tensor, "members 1"]
    seeds: Int[Tensor, "members"]

    @classmethod
    def of(cls, members: Sequence[Member], latents: int, plan: Plan, device: torch.device) -> MemberInputs:
        """The inputs of `members` inside a model with `latents` latents."""
        kept = PRECISIONS[plan.precision].kept
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
        members: Sequence[Member],
        plan: Plan,
        device: torch.device,
        items: int,
    ) -> Ensemble:
        """The ensemble of `members` inside `model`, for training on `items` items."""
        kept = PRECISIONS[plan.precision].kept
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

    @property
    def latents(self) -> int:
        """Number of latents of the model, the most that a member can have."""
        return self.inputs.masks.shape[1]

    def assign_slots(self, members: Sequence[Member]) -> None:
        """Replace the members, in the same tensors, which compiled programs hold."""
        other = MemberInputs.of(members, self.latents, self.plan, self.inputs.masks.device)
        for name, values in self.inputs.strengths.items():
            values.copy_(other.strengths[name])
        self.inputs.masks.copy_(other.masks)
        self.inputs.rates.copy_(other.rates)
        self.inputs.seeds.copy_(other.seeds)

    def update(
        self,
        parameters: Float[Tensor, "members size"],
        gradient: Float[Tensor, "members size"],
        slots: Slots,
        step: Tensor,
        inputs: MemberInputs,
        block: int | None = None,
    ) -> None:
        """Do one optimiser step in place; the critic has another optimiser and learning rate."""
        if self.critic is None:
            apply(self.plan.optimiser, parameters, gradient, slots, step, inputs.rates, block)
            return
        own = self.layout.model_size
        critic_rates = inputs.strengths["critic_rate"].reshape(-1, 1)
        parts = ((slice(own), self.plan.optimiser, inputs.rates), (slice(own, None), CRITIC_OPTIMISER, critic_rates))
        for columns, optimiser, rates in parts:
            part = {name: slot[:, columns] for name, slot in slots.items()}
            apply(optimiser, parameters[:, columns], gradient[:, columns], part, step, rates, block)

    def loss(
        self,
        vector: Float[Tensor, "size"],
        buffers: Mapping[str, Tensor],
        mask: Float[Tensor, "latents"],
        values: Mapping[str, Tensor],
        x: Float[Tensor, "batch ..."],
        noise: Mapping[str, Tensor],
        step: Int[Tensor, ""],
    ) -> tuple[Float[Tensor, ""], dict[str, Float[Tensor, ""]]]:
        """The loss of one member on one batch, and every named term with it, averaged over the batch.

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
        terms = with_strengths(self.objective, values)(x.to(kept), result, context).means()
        return terms["loss"], terms

    @torch.no_grad()
    def evaluate(self, state: State, data: Batches) -> dict[str, Float[Tensor, "members"]]:
        """The mean of every term over the items, with noise that is the same at every evaluation.

        Batches have the size of those in training; an incomplete last batch is ignored.
        """
        inputs, batch = self.inputs, min(self.plan.batch, len(data))
        device, dtype = state.parameters.device, state.parameters.dtype
        step = torch.tensor(state.step, device=device)

        def terms_of(x: Tensor, noise: dict[str, Tensor]) -> dict[str, Float[Tensor, "members"]]:
            if len(state.parameters) == 1:
                buffers, values, drawn = map(first_member, (state.buffers, inputs.strengths, noise))
                _, alone = self.loss(state.parameters[0], buffers, inputs.masks[0], values, x, drawn, step)
                return {name: term[None] for name, term in alone.items()}
            terms: dict[str, Tensor]
            _, terms = vmap(
                lambda vector, buffers, mask, values, drawn: self.loss(vector, buffers, mask, values, x, drawn, step)
            )(state.parameters, state.buffers, inputs.masks, inputs.strengths, noise)
            return terms

        totals: dict[str, Tensor] = {}
        starts = range(0, len(data) - batch + 1, batch)
        with evaluation_mode(self.model):
            for start in starts:
                index = torch.arange(start, start + batch, device=device)
                noise = {
                    name: counter.normal(inputs.seeds, f"evaluation/{name}", torch.tensor(0), index, width).to(dtype)
                    for name, width in self.noise.items()
                }
                for name, condition in data.condition(index).items():
                    noise[name] = condition.expand(len(state.parameters), *condition.shape)
                for name, term in terms_of(as_channels_last(data.batch(index)), noise).items():
                    totals[name] = totals.get(name, 0) + term.to(torch.float64)
        return {name: (total / len(starts)).cpu() for name, total in totals.items()}


def group_members(members: Sequence[Member], module: nn.Module, device: torch.device) -> list[list[int]]:
    """Positions of the members, in groups that train as one program."""
    positions = list(range(len(members)))
    stacked = device.type == "cuda" or Layout.of(module).size <= MAX_STACKED_PARAMETERS
    size = MAX_MEMBERS if stacked else 1
    return [positions[start : start + size] for start in range(0, len(positions), size)]
