"""The models of a search: each trained as far as was asked for, and read by every gap on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from vaescope.data import Dataset
from vaescope.encoding import encode
from vaescope.models import Architecture
from vaescope.sizing.gaps import Evidence, Gap, Reading, read
from vaescope.training import Member, Plan, Trainer
from vaescope.training.groups import group as group_members
from vaescope.training.state import State

# Which gap, of which model, after how many periods of training.
Key = tuple[str, Member, int]
Look = Callable[[int], object]


@dataclass(frozen=True)
class Setup:
    """What all models of a search share; a period is so many steps, after each of which the models are read."""

    architecture: Architecture
    plan: Plan
    period: int
    data: Dataset
    probe_items: int
    device: torch.device

    @property
    def epoch(self) -> int:
        """Steps of a pass over the items."""
        return len(self.data) // self.plan.batch

    @property
    def probe(self) -> Dataset:
        """The items that models are read on."""
        return self.data.draw(self.probe_items)


class Pool:
    """Models by what is their own (size, strengths, seed), trained together where that is faster.

    `states` holds where each model stands and `readings` what was read; both may lie on a disk. On an accelerator one
    program with `seats` places serves all models: those to be trained take turns in it.
    """

    def __init__(
        self,
        setup: Setup,
        gaps: Mapping[str, Gap],
        seats: int,
        states: MutableMapping[Member, State] | None = None,
        readings: MutableMapping[Key, Reading] | None = None,
    ) -> None:
        self.setup, self.gaps, self.seats = setup, dict(gaps), seats
        self.states: MutableMapping[Member, State] = {} if states is None else states
        self.readings: MutableMapping[Key, Reading] = {} if readings is None else readings
        self.asked: dict[Member, int] = {}
        self.trained_steps = 0
        self._trainer: Trainer | None = None
        self._shells: dict[int, nn.Module] = {}
        self._probe = setup.probe.to(setup.device)

    def read(self, wanted: Sequence[tuple[str, Member]], period: int, look: Look) -> dict[tuple[str, Member], Reading]:
        """What each gap says of its member after `period` periods; members not that far are trained."""
        missing = dict.fromkeys(member for gap, member in wanted if (gap, member, period) not in self.readings)
        for member in missing:
            if self._reached(member) >= period:
                del self.states[member]  # its reading was lost: it trains again, to be read again
        for number in range(1, period + 1):
            for group in self._groups([member for member in missing if self._reached(member) < number]):
                self._train(group, number, look)
        self.asked |= dict.fromkeys((member for _, member in wanted), period)
        return {(gap, member): self.readings[gap, member, period] for gap, member in wanted}

    def _reached(self, member: Member) -> int:
        state = self.states.get(member)
        return 0 if state is None else state.step // self.setup.period

    def _groups(self, members: list[Member]) -> Iterator[list[Member]]:
        """Members that train together."""
        if not members:
            return
        setup = self.setup
        if setup.device.type == "cuda":
            for start in range(0, len(members), self.seats):
                yield members[start : start + self.seats]
            return
        with torch.device("meta"):
            widest = max(member.latents for member in members)
            module = setup.architecture.build(setup.data.shape, widest, seed=None)
        for group in group_members(members, module, setup.device):
            yield [members[position] for position in group]

    def _train(self, members: list[Member], period: int, look: Look) -> None:
        """Train the members to the end of a period, and read them there."""
        trainer, stop = self._seated(members), period * self.setup.period
        while trainer.state.step < stop:
            before = trainer.state.step
            trainer.advance(stop)
            steps = (trainer.state.step - before) * len(members)
            self.trained_steps += steps
            look(self.trained_steps)
        for place, member in enumerate(members):
            evidence = self._evidence(trainer.load_into(self._shell(member.latents), place))
            for name, gap in self.gaps.items():
                self.readings[name, member, period] = read(gap, evidence)
            # After its readings: a state that is there has been read.
            self.states[member] = trainer.member_state(place)

    def _seated(self, members: list[Member]) -> Trainer:
        """A trainer with these members in its first places; on an accelerator the same one while it is wide enough."""
        setup = self.setup
        states = [self.states.get(member) for member in members]
        if setup.device.type == "cuda":
            empty = self.seats - len(members)
            members, states = members + members[-1:] * empty, states + states[-1:] * empty
        widest = max(member.latents for member in members)
        trainer, self._trainer = self._trainer, None  # its memory goes before the next one needs it
        if setup.device.type != "cuda" or trainer is None or trainer.ensemble.inputs.masks.shape[1] < widest:
            trainer = Trainer(setup.architecture, members, setup.plan, setup.data, None, setup.device)
        if trainer.members != tuple(members) or trainer.state.step or any(states):
            trainer.assign_slots(members, states)
        self._trainer = trainer
        return trainer

    def _evidence(self, model: nn.Module) -> Evidence:
        codes = encode(model, self._probe, progress=False)
        moved = {name: getattr(codes, name).to(self.setup.device) for name in ("mean", "variance", "sample")}
        return Evidence(model, self._probe, replace(codes, **moved))

    def _shell(self, latents: int) -> Any:
        if latents not in self._shells:
            setup = self.setup
            shell = setup.architecture.build(setup.data.shape, latents, seed=0)
            self._shells[latents] = shell.to(setup.device).eval()
        return self._shells[latents]
