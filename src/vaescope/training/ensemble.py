"""The members of an ensemble as one program: the loss of a member is a pure function of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.utils import _pytree as pytree

from vaescope.models import ForwardPass, TrainableModel
from vaescope.models.module import evaluation_mode
from vaescope.numerics import counter
from vaescope.objectives import Context, Objective, strengths, with_strengths
from vaescope.training.batches import Batches, as_channels_last
from vaescope.training.checkpoint import State
from vaescope.training.layout import Layout, Weights
from vaescope.training.optimisers import Adam, Optimiser, Slots, apply
from vaescope.training.plan import PRECISIONS, Member, Plan
from vaescope.training.statistics import compute_exactly

CRITIC_OPTIMISER = Adam(0.5, 0.9)
MAX_MEMBERS = 64
# On a CPU, small nets are limited by the overhead of operations, which stacked members share; large nets are not.
MAX_STACKED_PARAMETERS = 100_000

Result = TypeVar("Result")
# Applies an optimiser to parameters, gradient, slots, step and learning rates.
Update = Callable[[Optimiser, Tensor, Tensor, Slots, Tensor, Tensor], None]


class Outcome(NamedTuple):
    """Outputs of a forward pass in addition to the loss: every named term, and the updated buffers of the model."""

    terms: dict[str, Float[Tensor, ""]]
    buffers: dict[str, Tensor]


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
    """The settings that differ between members, stacked: inputs of the program, so that other members can use it."""

    masks: Float[Tensor, "members latents"]
    strengths: dict[str, Float[Tensor, "members"]]
    rates: Float[Tensor, "members 1"]
    seeds: Int[Tensor, "members"]

    def of_member(self, member: int) -> MemberInputs:
        """The inputs of one member, stacked."""
        one = slice(member, member + 1)
        return MemberInputs(
            self.masks[one],
            {name: values[one] for name, values in self.strengths.items()},
            self.rates[one],
            self.seeds[one],
        )

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
            torch.tensor([member.seed for member in members], device=counter.float64_device(device)),
        )


@dataclass(frozen=True)
class Ensemble:
    """A model without weights, its objective, and the settings that differ between members.

    Attributes:
        model: As wide as the widest member; the masks of `inputs` select each member's latents.
        critic: The critic of the objective, if it has one.
        items: Number of training items.
        noise: The streams of normal noise that model and objective use, and the columns of each.
        one_by_one: Why the members cannot be batched, but train one after another; empty if they can.
        draws: Whether the model draws random numbers by itself, as dropout does; they are seeded for every step.
        exact: Names of the parameters and buffers that keep their precision: those of normalisations with statistics.
    """

    model: TrainableModel
    critic: nn.Module | None
    items: int
    noise: dict[str, int]
    layout: Layout
    objective: Objective
    plan: Plan
    inputs: MemberInputs
    one_by_one: str = ""
    draws: bool = False
    exact: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        model: TrainableModel,
        critic: nn.Module | None,
        members: Sequence[Member],
        plan: Plan,
        device: torch.device,
        items: int,
    ) -> Ensemble:
        """The ensemble of `members` inside `model`, for training on `items` items."""
        kept, computed, _ = PRECISIONS[plan.precision]
        latents, objective = len(model.latent_mask), members[0].objective
        return cls(
            model.to(device=device, dtype=kept).train(),
            None if critic is None else critic.to(device=device, dtype=kept),
            items,
            {**model.noise, **objective.noise(latents)},
            Layout.of(model, critic),
            objective,
            plan,
            MemberInputs.of(members, latents, plan, device),
            exact=frozenset() if computed == kept else compute_exactly(model, computed),
        )

    @property
    def latents(self) -> int:
        """Number of latents of the model, the most that a member can have."""
        return self.inputs.masks.shape[1]

    @property
    def batched(self) -> bool:
        """Whether functions of all members are batched."""
        return not self.one_by_one and len(self.inputs.masks) > 1

    def shared_items(self, data: Batches, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch ..."]:
        """The items at `index` for functions of every member, in a memory format that suits these."""
        # Batched over members, layers such as group normalisation refuse images with channels last.
        return data.batch(index) if self.batched else as_channels_last(data.batch(index))

    def holds(self, latents: int) -> bool:
        """Whether a member with this many latents can be part of the program."""
        return latents <= self.latents if self.model.nests else latents == self.latents

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
        update: Update = apply,
    ) -> None:
        """Do one optimiser step in place; the critic has another optimiser and learning rate."""
        if self.critic is None:
            update(self.plan.optimiser, parameters, gradient, slots, step, inputs.rates)
            return
        own = self.layout.model_size
        critic_rates = inputs.strengths["critic_rate"].reshape(-1, 1)
        parts = ((slice(own), self.plan.optimiser, inputs.rates), (slice(own, None), CRITIC_OPTIMISER, critic_rates))
        for columns, optimiser, rates in parts:
            part = {name: slot[:, columns] for name, slot in slots.items()}
            update(optimiser, parameters[:, columns], gradient[:, columns], part, step, rates)

    def loss(
        self,
        vector: Float[Tensor, "size"],
        buffers: Mapping[str, Tensor],
        mask: Float[Tensor, "latents"],
        values: Mapping[str, Tensor],
        x: Float[Tensor, "batch ..."],
        noise: Mapping[str, Tensor],
        step: Int[Tensor, ""],
    ) -> tuple[Float[Tensor, ""], Outcome]:
        """The loss of one member on one batch, and every named term with it, averaged over the batch.

        Args:
            buffers: The persistent buffers of the model, which stay as they are.
            values: The strengths of the member's objective.
            noise: The noise streams, and the condition under 'condition' if the model takes one.
        """
        kept, computed, _ = PRECISIONS[self.plan.precision]
        weights = self.weights(vector)
        state = {**weights.model, **self.held(buffers), "latent_mask": mask.to(computed)}
        condition = noise["condition"].to(computed) if "condition" in noise else None
        result: ForwardPass = functional_call(self.model, state, (self.given(x), noise, condition))
        critic = None if self.critic is None else Critic(self.critic, weights.critic)
        context = Context(step, self.items, mask, noise, critic)
        terms = with_strengths(self.objective, values)(x.to(kept), result, context).means()
        return terms["loss"], Outcome(terms, {name: state[name].to(buffer.dtype) for name, buffer in buffers.items()})

    def given(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        """Items in the precision that the model computes in; in that of the parameters if it has to scale them."""
        kept, computed, _ = PRECISIONS[self.plan.precision]
        return x.to(computed if self.model.units is None else kept)

    def weights(self, vector: Float[Tensor, "size"]) -> Weights:
        """The parameters of one member by name, in the precision that the model computes in."""
        weights = self.layout.unpack(vector.to(PRECISIONS[self.plan.precision].computed))
        if not self.exact:
            return weights
        exact = self.layout.unpack(vector).model
        return weights._replace(model={**weights.model, **{name: exact[name] for name in self.exact & exact.keys()}})

    def held(self, buffers: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Copies of the buffers of one member, for the model to update or replace; counts stay whole numbers."""
        computed = PRECISIONS[self.plan.precision].computed
        return {
            name: buffer.to(
                buffer.dtype if name in self.exact or not buffer.is_floating_point() else computed, copy=True
            )
            for name, buffer in buffers.items()
        }

    def for_each_member(self, function: Callable[..., Result], *stacked: object) -> Result:
        """The function of each member's tensors: batched, or one after another; the results are stacked."""
        if self.batched:
            result: Result = vmap(function)(*stacked)
            return result
        found = [
            function(*pytree.tree_map(lambda tensor: tensor[member], stacked))  # noqa: B023
            for member in range(len(self.inputs.masks))
        ]
        together: Result = pytree.tree_map(lambda *parts: torch.stack(parts), *found)
        return together

    @torch.no_grad()
    def evaluate(self, state: State, data: Batches) -> dict[str, Float[Tensor, "members"]]:
        """The mean of every term over the items, with noise that is the same at every evaluation.

        Batches have the size of those in training; an incomplete last batch is ignored.
        """
        inputs, batch = self.inputs, min(self.plan.batch, len(data))
        device, dtype = state.parameters.device, state.parameters.dtype
        step = torch.tensor(state.step, device=device)

        def terms_of(x: Tensor, noise: dict[str, Tensor]) -> dict[str, Float[Tensor, "members"]]:
            return self.for_each_member(
                lambda vector, buffers, mask, values, drawn: (
                    self.loss(vector, buffers, mask, values, x, drawn, step)[1].terms
                ),
                state.parameters,
                state.buffers,
                inputs.masks,
                inputs.strengths,
                noise,
            )

        totals: dict[str, Tensor] = {}
        starts = range(0, len(data) - batch + 1, batch)
        drawing = counter.seeded(0, "evaluation", device) if self.draws else nullcontext()
        with evaluation_mode(self.model), drawing:
            for start in starts:
                index = torch.arange(start, start + batch, device=device)
                noise = {
                    name: counter.normal(inputs.seeds, f"evaluation/{name}", torch.tensor(0), index, width)
                    .to(dtype)
                    .to(device)
                    for name, width in self.noise.items()
                }
                for name, condition in data.condition(index).items():
                    noise[name] = condition.expand(len(state.parameters), *condition.shape)
                for name, term in terms_of(self.shared_items(data, index), noise).items():
                    totals[name] = totals.get(name, 0) + term.to(counter.float64_device(device)).double()
        return {name: (total / len(starts)).cpu() for name, total in totals.items()}


def group_members(
    members: Sequence[Member], model: TrainableModel, device: torch.device, most: int = MAX_MEMBERS
) -> list[list[int]]:
    """Positions of the members, in groups that train as one program.

    Args:
        model: The widest of their models.
        most: The largest number of members of a group.
    """
    by_size: dict[int, list[int]] = {}
    for position, member in enumerate(members):
        by_size.setdefault(0 if model.nests else member.latents, []).append(position)
    stacked = device.type == "cuda" or Layout.of(model).size <= MAX_STACKED_PARAMETERS
    size = most if stacked else 1
    return [own[start : start + size] for own in by_size.values() for start in range(0, len(own), size)]
