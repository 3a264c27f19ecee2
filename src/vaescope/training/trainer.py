"""Training in memory: members of one architecture advance together, row by row of their history."""

from __future__ import annotations

import warnings
from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vaescope.data.dataset import Dataset, Subset
from vaescope.errors import ConfigurationError, DataError, NonFiniteError, RepetitionWarning
from vaescope.models import Architecture
from vaescope.nets import initialise
from vaescope.objectives import in_words
from vaescope.objectives.strengths import form
from vaescope.training.batches import Feed
from vaescope.training.critic import CRITIC_OPTIMISER, MODEL, WithCritic
from vaescope.training.engines import Alone, Records, Stacked, State, product_precision
from vaescope.training.evaluate import evaluate
from vaescope.training.layout import Layout
from vaescope.training.monitor import Monitor
from vaescope.training.optimisers import empty_slots
from vaescope.training.order import BatchOrder
from vaescope.training.plan import PRECISIONS, Member, Plan
from vaescope.training.step import Task


@dataclass(frozen=True)
class Row:
    """One row of a member's history: the means of the named terms up to a step."""

    member: int
    step: int
    split: str
    values: dict[str, Any]


class Trainer:
    """Members, the data, and where training stands.

    Training is a function of the plan and the members' seeds: `advance` in one go, in pieces, or after
    `load` of an earlier state gives the same numbers.
    """

    def __init__(
        self,
        architecture: Architecture,
        members: Sequence[Member],
        plan: Plan,
        data: Dataset,
        held_out: Dataset | None = None,
        device: torch.device | str = "cpu",
        latents: int | None = None,
    ) -> None:
        """`latents` makes the program wider than its members, so that wider ones can take their places."""
        self.architecture, self.members, self.plan = architecture, tuple(members), plan
        check_members(self.members)
        self.device = torch.device(device)
        on_host = self.device.type == "cpu"
        self.data = data if on_host else _resident(data, self.device)
        self.held_out = None if held_out is None else held_out.draw(plan.evaluation_items)
        if self.held_out is not None and not on_host:
            self.held_out = _resident(self.held_out, self.device)
        kept, _, _ = PRECISIONS[plan.precision]
        widest = max([member.latents for member in self.members] + [latents or 1])
        module = self._build(widest, seed=0)
        self.task = Task.of(module, self.members, plan, self.device, len(data))
        parameters = torch.stack([self._initial(member).to(kept) for member in self.members]).to(self.device)
        optimisers = [plan.optimiser] + ([CRITIC_OPTIMISER] if self._has_critic else [])
        slots = [empty_slots(optimiser, parameters) for optimiser in optimisers]
        self.state = State(0, parameters, dict(ChainMap(*slots)))
        self.order = BatchOrder(self.task.seeds, len(data), plan.batch)
        alone = len(self.members) == 1 and on_host
        probe = (self.data if held_out is None else held_out).draw(plan.monitor_items)
        probe = probe if on_host else _resident(probe, self.device)
        self.monitor = Monitor(self.task, self.members, Feed.of(probe, module, self.device))
        self._held_out = None if self.held_out is None else Feed.of(self.held_out, module, self.device)
        self._layouts: dict[int, Layout] = {}
        self.engine: Alone | Stacked = (Alone if alone else Stacked)(
            self.task, Feed.of(self.data, module, self.device), self.order
        )

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return self.state.step >= self.plan.steps

    def load(self, state: State) -> None:
        """Take up training at an earlier state."""
        if state.parameters.shape != self.state.parameters.shape or set(state.slots) != set(self.state.slots):
            raise ConfigurationError(
                f"a state must hold {tuple(self.state.parameters.shape)} parameters and the slots "
                f"{sorted(self.state.slots)}, got {tuple(state.parameters.shape)} and {sorted(state.slots)}."
            )
        self.state.restore(state)

    def seat(self, members: Sequence[Member], states: Sequence[State | None]) -> None:
        """Give the places of this ensemble to as many other members, each with its state, or None at its beginning.

        The program, which an accelerator took long to compile, stays as it is.
        """
        members, widest = tuple(members), self.task.masks.shape[1]
        check_members((*self.members, *members))
        steps = {0 if state is None else state.step for state in states}
        if len(members) != len(self.members) or len(steps) != 1 or max(one.latents for one in members) > widest:
            raise ConfigurationError(
                f"members that take the places of others must be {len(self.members)} of at most {widest} latents that "
                f"stand at one step, got {len(members)} of at most {max(one.latents for one in members)} latents "
                f"at the steps {sorted(steps)}."
            )
        self.members, self.monitor.members = members, members
        self.task.seat(members)
        self.order.forget()
        self.state.step = steps.pop()
        for place, (member, state) in enumerate(zip(members, states, strict=True)):
            own = self._layout(member.latents)
            begin = self._initial(member) if state is None else self.task.layout.widen(state.parameters[0], own)
            self.state.parameters[place] = begin.to(self.state.parameters)
            for name, slot in self.state.slots.items():
                slot[place] = 0 if state is None else self.task.layout.widen(state.slots[name][0], own).to(slot)

    def advance(self, until: int | None = None) -> list[Row]:
        """Train to the next row of the history, or to the step `until` before it, and evaluate where that is due.

        Stopped on the way, it leaves the state where it was before; on a non-finite number, at the last good step, if
        that number comes again when the steps are repeated.
        """
        before, stop = self.state.copy(), self.plan.next_stop(self.state.step)
        stop = stop if until is None else min(stop, until)
        with product_precision(self.plan.precision):
            try:
                records = self._run(before, stop)
                rows = self._rows("train", {name: record.mean(0) for name, record in records.items()})
                if self._held_out is not None and self.plan.evaluates_at(stop):
                    means = evaluate(self.task, self.state.parameters, self._held_out, stop)
                    rows += self._rows("test", means)
                if self.monitor.has_types and self.plan.monitors_at(stop):
                    rows += self._looks(stop)
            except NonFiniteError:
                raise
            except BaseException:
                self.state.restore(before)
                raise
        return rows

    def model(self, member: int = 0) -> nn.Module:
        """A member as a model of its own, with its own number of latents, on the CPU."""
        own = self.architecture.build(self.data.shape, self.members[member].latents, seed=0)
        return self.load_into(own, member)

    def load_into(self, model: nn.Module, member: int) -> nn.Module:
        """Give a model of the member's size its weights; it stays on its device."""
        vector = self.member_state(member).parameters[0]
        named = self._layout(self.members[member].latents).unpack(vector)
        if self._has_critic:
            named = {name.removeprefix(MODEL): weight for name, weight in named.items() if name.startswith(MODEL)}
        model.to(vector.dtype).load_state_dict(named, strict=True)
        return model.eval()

    def member_state(self, member: int) -> State:
        """A member's part of the state, as the model trained alone would have it."""
        own = self._layout(self.members[member].latents)

        def crop(stacked: Tensor) -> Tensor:
            return self.task.layout.crop(stacked[member].cpu(), own)[None]

        slots = {name: crop(slot) for name, slot in self.state.slots.items()}
        return State(self.state.step, crop(self.state.parameters), slots)

    @property
    def _has_critic(self) -> bool:
        return isinstance(self.task.module, WithCritic)

    def _build(self, latents: int, seed: int | None) -> nn.Module:
        """A model, and beside it the critic of an objective that has one."""
        model = self.architecture.build(self.data.shape, latents, seed)
        critic = self.members[0].objective.critic(latents)
        if critic is None:
            return model
        if seed is not None:
            # Under a name of its own, so that the model's weights are those that it has without a critic.
            initialise(nn.ModuleDict({"critic": critic}), str(self.architecture.initialisation), seed)
        return WithCritic(model, critic)

    def _layout(self, latents: int) -> Layout:
        """The layout of a member of so many latents on its own."""
        if latents not in self._layouts:
            with torch.device("meta"):
                self._layouts[latents] = Layout.of(self._build(latents, seed=None))
        return self._layouts[latents]

    def _initial(self, member: Member) -> Tensor:
        own = self._build(member.latents, member.seed)
        return self.task.layout.pack(dict(own.named_parameters()))

    def _rows(self, split: str, means: dict[str, Tensor]) -> list[Row]:
        return [
            Row(member, self.state.step, split, {name: float(mean[member]) for name, mean in means.items()})
            for member in range(len(self.members))
        ]

    def _looks(self, step: int) -> list[Row]:
        looks = self.monitor.look(self.state.parameters, step)
        return [Row(member, step, "probe", values) for member, values in enumerate(looks)]

    def _run(self, before: State, stop: int) -> Records:
        """The steps up to `stop`; where their numbers are not finite, the same steps once more."""
        records = self.engine.run(self.state, stop)
        once = _first_not_finite(records)
        if once is None:
            return records
        self.state.restore(before)
        again = self.engine.run(self.state, stop)
        twice = _first_not_finite(again)
        if twice is not None:
            raise self._broken(again, before, *twice)
        # From the same state a model does the same, but for the rounding of a GPU: what came once is the machine's.
        position, member, term = once
        warnings.warn(
            f"{term} became {float(records[term][position, member])} at step {before.step + position} of the member "
            f"{self._words(member)}, and is finite now that the steps from {before.step} on were repeated; training "
            f"goes on with these. When this comes often, look after {self.device}.",
            RepetitionWarning,
            stacklevel=3,
        )
        return again

    def _words(self, member: int) -> str:
        who = self.members[member]
        return (
            f"with seed {who.seed}, {who.latents} latents, {in_words(who.objective)} and learning rate "
            f"{who.learning_rate:g}"
        )

    def _broken(self, records: Records, before: State, position: int, member: int, term: str) -> NonFiniteError:
        """The error that names the number; the state is then that before its step."""
        step = before.step + position
        # The last good state: the same steps again, up to the one that broke.
        self.state.restore(before)
        if position:
            self.engine.run(self.state, step)
        items = self.order.indices(range(step, step + 1))[0, member].cpu()
        items = self.data.index.cpu()[items] if isinstance(self.data, Subset) else items
        losses = records["loss"][max(0, position - 1) : position + 1, member].tolist()
        return NonFiniteError(
            f"{term} must stay finite, it became {float(records[term][position, member])} at step {step} of the member "
            f"{self._words(member)}, on the items {items.tolist()}, where the loss was "
            f"{' and then '.join(f'{loss:.4g}' for loss in losses)}. Lower the learning rate, look at these items, or "
            "use precision 'float64'.",
            term=term,
            member=member,
            step=step,
            items=items.tolist(),
        )


def _resident(data: Dataset, device: torch.device) -> Dataset:
    """The data set held on the accelerator, where every step takes its items from."""
    try:
        return data.to(device)
    except torch.OutOfMemoryError as error:
        raise DataError(
            f"{data.name}: {len(data)} items must fit into the memory of {device}, they do not. "
            "Train on fewer items, or on device 'cpu'."
        ) from error


def check_members(members: tuple[Member, ...]) -> None:
    """At least one member, and one form of objective among them."""
    if not members:
        raise ConfigurationError("an ensemble needs at least one member, got none.")
    if len({form(member.objective) for member in members}) > 1:
        kinds = {type(member.objective).__name__ for member in members}
        # Of one kind, they differ in a field that is no number, and only their whole text tells how.
        names = sorted(kinds if len(kinds) > 1 else {str(member.objective) for member in members})
        raise ConfigurationError(
            "members of an ensemble must share one form of objective and differ in its strengths, got "
            f"{', '.join(names)}. Train them as separate ensembles."
        )


def _first_not_finite(records: Records) -> tuple[int, int, str] | None:
    """The step (within the record), the member and the term of the first number that is not finite."""
    names = [name for name in records if name != "loss"] + ["loss"]
    broken = torch.stack([~torch.isfinite(records[name]) for name in names], dim=-1)
    if not broken.any():
        return None
    position, member, term = (int(number) for number in broken.nonzero()[0])
    return position, member, names[term]
