"""The searches of all seeds, and the models that they share: all ask for sizes together, which train together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from vaescope.encoding import encode
from vaescope.models import LatentModule
from vaescope.progress import ProgressReport
from vaescope.sizing.gaps import Evidence, Gap, GapFunction, GapTerms, measure
from vaescope.sizing.result import Answer, Probe
from vaescope.sizing.search import RoundSearch, SearchResult
from vaescope.sizing.setup import SearchSpec, Setup
from vaescope.sizing.store import Measurements, States
from vaescope.training import Member, Trainer
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
        states: States | None = None,
        measurements: Measurements | None = None,
    ) -> None:
        self.setup, self.gaps, self.slots = setup, dict(gaps), slots
        self.states: States = {} if states is None else states
        self.measurements: Measurements = {} if measurements is None else measurements
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
            mean, variance, sample = (part.to(device) for part in (codes.mean, codes.variance, codes.sample))
            evidence = Evidence(model, self._probe, replace(codes, mean=mean, variance=variance, sample=sample))
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
        if setup.device.type != "cuda" or self._trainer is None or self._trainer.ensemble.latents < widest:
            self._trainer = None  # frees its memory before another one is built
            self._trainer = Trainer(setup.architecture, members, setup.plan, setup.data, None, setup.device)
        if self._trainer.members != tuple(members) or self._trainer.state.step or any(states):
            self._trainer.assign_slots(members, states)
        return self._trainer

    def _shell(self, latents: int) -> LatentModule:
        """A model to load weights into, on the device."""
        if latents not in self._shells:
            shell = self.setup.architecture.build(self.setup.data.shape, latents, seed=0)
            self._shells[latents] = shell.to(self.setup.device).eval()
        return self._shells[latents]


class SeedSearch:
    """The search of one seed: it repeats after each period of training, close to its previous answer.

    Attributes:
        period: The period in which the next sizes are measured.
        answer: The final answer, once two successive periods agree or `max_periods` is reached.
        probes: The latest measurement of each model.
    """

    def __init__(self, spec: SearchSpec, seed: int) -> None:
        self.spec, self.seed, self.period = spec, seed, 1
        self.answer: Answer | None = None
        self.probes: dict[Member, Probe] = {}
        self._previous: SearchResult | None = None
        self._search = RoundSearch(spec.start, spec.threshold, self._width(spec.near), spec.axis.largest, spec.near)

    def members(self) -> list[Member]:
        """The models to measure next."""
        own = replace(self.spec.member, seed=self.seed)
        return [self.spec.axis.member(size, own) for size in self._search.sizes]

    def feed(self, measured: Sequence[GapTerms]) -> None:
        """Take in the measurements of `members()`, in their order, and advance the search."""
        for member, terms in zip(self.members(), measured, strict=True):
            value = self.spec.axis.of(member)
            self.probes[member] = Probe(value, self.seed, self.period, terms.minuend, terms.subtrahend, terms.gap)
        gaps = [terms.gap for terms in measured]
        self._search.feed(dict(zip(self._search.sizes, gaps, strict=True)))
        if not self._search.sizes:
            self._end_period(self._search.result)

    def _end_period(self, found: SearchResult) -> None:
        """Give the answer, or search again after another period of training."""
        spec, alive = self.spec, self._mostly_alive(found)
        same = self._previous is not None and found.latents == self._previous.latents and alive
        if same or self.period == spec.max_periods:
            value = spec.axis.value(found.latents) if found.latents else 0
            stable = same or spec.max_periods == 1 or not alive
            self.answer = Answer(self.seed, value, self.period, stable, found)
            return
        self._previous = found
        self.period += 1
        start = max(1, found.latents)
        self._search = RoundSearch(start, spec.threshold, self._width(near=True), spec.axis.largest, near=True)

    def _width(self, near: bool) -> int:
        # An earlier answer is confirmed by two sizes: itself and the next.
        return max(2, self.spec.width // 2 + 1) if near else self.spec.width

    def _mostly_alive(self, found: SearchResult) -> bool:
        """Whether at least half of the model's latents are alive: before training none is, yet 1 is within 1."""
        if found.latents == 0:
            return False
        latents = self.spec.axis.member(found.latents, self.spec.member).latents
        return dict(found.gaps)[found.latents] <= latents / 2

    def status(self) -> str:
        """The current bracket and period, for the progress bar."""
        axis, (lower, upper) = self.spec.axis, self._search.result.bracket
        low = f"{axis.value(lower):.3g}" if lower else "0"
        high = "?" if upper is None else f"{axis.value(upper):.3g}"
        return f"{axis.name} {low} to {high}, period {self.period}"


def run_searches(pool: ModelPool, searches: Sequence[SeedSearch], report: ProgressReport) -> tuple[Answer, ...]:
    """Run all searches to their answers; searches in the same period share rounds of training."""
    while unfinished := [search for search in searches if search.answer is None]:
        period = min(search.period for search in unfinished)
        current = [search for search in unfinished if search.period == period]
        status = current[0].status() + (f" ({len(current)} seeds)" if len(current) > 1 else "")
        wanted = [(search.spec.gap, member) for search in current for member in search.members()]
        measured = pool.measure(wanted, period, partial(report, words=status))
        for search in current:
            search.feed([measured[search.spec.gap, member] for member in search.members()])
    return tuple(search.answer for search in searches if search.answer is not None)
