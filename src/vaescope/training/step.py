"""The loss of one member as a pure function of its parameters, and what the engines are built from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call

from vaescope.objectives import Context, strengths, with_strengths
from vaescope.training.critic import CRITIC_OPTIMISER, MODEL, Judge, WithCritic
from vaescope.training.layout import Layout
from vaescope.training.optimisers import Slots
from vaescope.training.plan import PRECISIONS, Member, Plan


@dataclass(frozen=True)
class Task:
    """A model without weights, the objective's form, and what differs between members, stacked.

    `module` is as wide as the widest member; `masks` keeps each member's own latents. `noise` names the streams
    of normal noise that the model asks for and how many columns each has.
    """

    module: nn.Module
    items: int
    noise: dict[str, int]
    layout: Layout
    objective: Any
    plan: Plan
    masks: Float[Tensor, "members latents"]
    strengths: dict[str, Float[Tensor, "members"]]
    rates: Float[Tensor, "members 1"]
    seeds: Int[Tensor, "members"]

    @classmethod
    def of(cls, module: Any, members: tuple[Member, ...], plan: Plan, device: torch.device, items: int) -> Task:
        """The task of training `members` inside `module` on so many items."""
        kept, _, _ = PRECISIONS[plan.precision]
        latents = torch.tensor([member.latents for member in members])
        widest = len(module.latent_mask)
        values = [strengths(member.objective) for member in members]
        return cls(
            module.to(device=device, dtype=kept),
            items,
            {**module.noise, **members[0].objective.noise(widest)},
            Layout.of(module),
            members[0].objective,
            plan,
            (torch.arange(widest) < latents[:, None]).to(device=device, dtype=kept),
            {name: torch.tensor([v[name] for v in values], dtype=kept, device=device) for name in values[0]},
            torch.tensor([[member.learning_rate] for member in members], dtype=kept, device=device),
            torch.tensor([member.seed for member in members], device=device),
        )

    def seat(self, members: tuple[Member, ...]) -> None:
        """Put other members in the places of the present ones, in the same tensors, which programs may hold."""
        other = Task.of(self.module, members, self.plan, self.masks.device, self.items)
        pairs = [(self.strengths[name], value) for name, value in other.strengths.items()]
        for mine, theirs in [*pairs, (self.masks, other.masks), (self.rates, other.rates), (self.seeds, other.seeds)]:
            mine.copy_(theirs)

    def update(
        self,
        apply: Callable[..., None],
        parameters: Tensor,
        gradient: Tensor,
        slots: Slots,
        step: Tensor,
        rates: Tensor,
        values: Mapping[str, Tensor],
    ) -> None:
        """One step of the optimiser in place by `apply`; the parameters of a critic, the last ones, have their own."""
        if not isinstance(self.module, WithCritic):
            apply(self.plan.optimiser, parameters, gradient, slots, step, rates)
            return
        own = sum(
            span for name, span in zip(self.layout.names, self.layout.spans, strict=True) if name.startswith(MODEL)
        )
        critics = values["critic_rate"].reshape(-1, 1)
        parts = ((slice(own), self.plan.optimiser, rates), (slice(own, None), CRITIC_OPTIMISER, critics))
        for columns, optimiser, rate in parts:
            part = {name: slot[:, columns] for name, slot in slots.items()}
            apply(optimiser, parameters[:, columns], gradient[:, columns], part, step, rate)

    def terms(
        self,
        vector: Float[Tensor, "size"],
        mask: Float[Tensor, "latents"],
        values: dict[str, Tensor],
        x: Float[Tensor, "batch ..."],
        noise: Mapping[str, Tensor],
        step: Int[Tensor, ""],
    ) -> dict[str, Float[Tensor, ""]]:
        """The loss and every named term of one member on one batch, averaged over the batch.

        `noise` holds the condition too, for a model that takes one.
        """
        kept, computed, _ = PRECISIONS[self.plan.precision]
        named = self.layout.unpack(vector.to(computed))
        judge = Judge.of(self.module, named)
        weights = {**named, f"{MODEL if judge else ''}latent_mask": mask.to(computed)}
        condition = noise["condition"].to(computed) if "condition" in noise else None
        result = functional_call(self.module, weights, (x.to(computed), noise, condition))
        context = Context(step, self.items, mask, noise, judge)
        return with_strengths(self.objective, values)(x.to(kept), result, context).means()
