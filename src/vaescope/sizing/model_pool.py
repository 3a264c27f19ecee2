"""The models of a search: each is trained as far as needed, and measured by every gap after each period."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from vaescope.encoding import encode
from vaescope.models import LatentModule
from vaescope.sizing.gaps import Evidence, Gap, GapFunction, GapTerms, measure
from vaescope.sizing.setup import Setup
from vaescope.sizing.store import GapJournal, MeasurementKey, StateFiles
from vaescope.training import Member, State, Trainer
from vaescope.training.ensemble import group_members


class ModelPool:
    """Models by size, strengths and seed, trained together where that is faster.

    Args:
        gaps: The gaps that every model is measured by, by label.
        slots: On a GPU one program trains this many models at once; more take turns.
        states: Where training states are kept.
        measurements: Where measured gaps are kept.
    """

    def __init__(
        self,
        setup: Setup,
        gaps: Mapping[str, Gap | GapFunction],
        slots: int,
        states: StateFiles | dict[Member, State] | None = None,
        measurements: GapJournal | dict[MeasurementKey, GapTerms] | None = None,
    ) -> None:
        self.setup, self.gaps, self.slots = setup, dict(gaps), slots
        self.states = {} if states is None else states
        self.measurements = {} if measurements is None else measurements
        self.trained_steps = 0
        self._trainer: Trainer | None = None
        self._shells: dict[int, LatentModule] = {}
        self._probe = setup.probe.to(setup.device)

    def measure(
        self, wanted: Sequence[tuple[str, Member]], period: int, report: Callable[[int], object]
    ) -> dict[tuple[str, Member], GapTerms]:
        """The gap of each member after `period` periods; members that are not there yet are trained."""
        missing = dict.fromkeys(member for gap, member in wanted if (gap, member, period) not in self.measurements)
        for member in missing:
            if self._periods_done(member) >= period:
                del self.states[member]  # its measurement was lost: train it again to measure it again
        for number in range(1, period + 1):
            for group in self._groups([member for member in missing if self._periods_done(member) < number]):
                self._train(group, number, report)
        return {(gap, member): self.measurements[gap, member, period] for gap, member in wanted}

    def _periods_done(self, member: Member) -> int:
        state = self.states.get(member)
        return 0 if state is None else state.step // self.setup.period

    def _groups(self, members: list[Member]) -> Iterator[list[Member]]:
        """Members that train together."""
        if not members:
            return
        if self.setup.device.type == "cuda":
            for start in range(0, len(members), self.slots):
                yield members[start : start + self.slots]
            return
        form = self.setup.form(max(member.latents for member in members))
        for group in group_members(members, form, self.setup.device):
            yield [members[position] for position in group]

    def _train(self, members: list[Member], period: int, report: Callable[[int], object]) -> None:
        """Train the members to the end of a period, and measure them there."""
        trainer, stop = self._trainer_of(members), period * self.setup.period
        while trainer.state.step < stop:
            before = trainer.state.step
            trainer.advance(stop)
            self.trained_steps += (trainer.state.step - before) * len(members)
            report(self.trained_steps)
        for slot, member in enumerate(members):
            model = trainer.load_into(self._shell(member.latents), slot)
            codes, device = encode(model, self._probe, progress=False), self.setup.device
            moved = {name: getattr(codes, name).to(device) for name in ("mean", "variance", "sample")}
            evidence = Evidence(model, self._probe, replace(codes, **moved))
            for label, gap in self.gaps.items():
                self.measurements[label, member, period] = measure(gap, evidence)
            # States follow their measurements: a stored state has been measured.
            self.states[member] = trainer.member_state(slot)

    def _trainer_of(self, members: list[Member]) -> Trainer:
        """A trainer with these members in its first slots; on a GPU the same one while it is wide enough."""
        setup = self.setup
        states = [self.states.get(member) for member in members]
        if setup.device.type == "cuda":
            empty = self.slots - len(members)
            members, states = members + members[-1:] * empty, states + states[-1:] * empty
        widest = max(member.latents for member in members)
        trainer, self._trainer = self._trainer, None  # frees its memory before another one is built
        if setup.device.type != "cuda" or trainer is None or trainer.ensemble.latents < widest:
            trainer = Trainer(setup.architecture, members, setup.plan, setup.data, None, setup.device)
        if trainer.members != tuple(members) or trainer.state.step or any(states):
            trainer.assign_slots(members, states)
        self._trainer = trainer
        return trainer

    def _shell(self, latents: int) -> LatentModule:
        """A model to load weights into, on the device."""
        if latents not in self._shells:
            shell = self.setup.architecture.build(self.setup.data.shape, latents, seed=0)
            self._shells[latents] = shell.to(self.setup.device).eval()
        return self._shells[latents]
