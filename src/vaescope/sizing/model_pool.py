"""The searches of all seeds, and the models that they share: all ask for sizes together, which train together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, zip_longest
from typing import Protocol, TypeAlias

import torch

from vaescope.data import Dataset
from vaescope.encoding import encode
from vaescope.encoding.scvi import ScviModel
from vaescope.encoding.wrap import wrap
from vaescope.encoding.wrapped import WrappedModel
from vaescope.errors import ConfigurationError, NonFiniteError
from vaescope.models import TrainableModel
from vaescope.models.factory import checked_factory_size
from vaescope.progress import ProgressReport
from vaescope.sizing.axes import LATENTS
from vaescope.sizing.gaps import Evidence, Gap, GapFunction, GapTerms, measure
from vaescope.sizing.kinds import new_search
from vaescope.sizing.own_training import ScviModels, TrainFunction, train_period
from vaescope.sizing.result import Answer, Probe
from vaescope.sizing.search import Search, SearchResult
from vaescope.sizing.setup import SearchSpec, Setup
from vaescope.sizing.store import Measurements, States
from vaescope.training import Member, Trainer
from vaescope.training.ensemble import group_members

# Called with the steps that the models of a round have trained, and the steps of the whole round.
StepsReport: TypeAlias = Callable[[int, int], object]


class Pool(Protocol):
    """Models that are trained and measured when a search asks for them.

    Attributes:
        trained_steps: Steps of all models together.
        trained_ahead: Number of models that were trained ahead and that no search has asked for.
    """

    trained_steps: int

    @property
    def trained_ahead(self) -> int: ...

    def measure(
        self, wanted: Sequence[tuple[str, Member]], period: int, report: StepsReport, likely: Sequence[Member] = ()
    ) -> dict[tuple[str, Member], GapTerms]:
        """The gap of each member after `period` periods; members that are not there yet are trained.

        Args:
            likely: Members that may be asked for later, the likeliest first: they train where that takes no time.
        """


class ModelPool:
    """Models by size, strengths and seed, trained together where that is faster.

    The empty slots of a program train models ahead that may be asked for later. They are measured only then: until a
    search asks for it, no model can change an answer, raise an error or take time to measure.

    Args:
        gaps: The gaps that every model is measured by, by label.
        slots: Number of models of one program, which is reused: more models take turns, and empty slots are filled with
            models trained ahead, then with copies. None: a new program for each group of models, without empty slots.
        states: Where training states are kept.
        measurements: Where measured gaps are kept.
    """

    def __init__(
        self,
        setup: Setup,
        gaps: Mapping[str, Gap | GapFunction],
        slots: int | None = None,
        states: States | None = None,
        measurements: Measurements | None = None,
    ) -> None:
        self.setup, self.gaps, self.slots = setup, dict(gaps), slots
        self.states: States = {} if states is None else states
        self.measurements: Measurements = {} if measurements is None else measurements
        self.trained_steps = 0
        self._asked: set[Member] = set()
        self._ahead: set[Member] = set()
        self._diverged: set[Member] = set()  # when they were trained ahead
        self._trainer: Trainer | None = None
        self._shells: dict[int, TrainableModel] = {}
        self._probe = setup.probe.to(setup.device)

    @property
    def trained_ahead(self) -> int:
        """Number of models that were trained ahead and that no search has asked for."""
        return len(self._ahead - self._asked)

    def measure(
        self, wanted: Sequence[tuple[str, Member]], period: int, report: StepsReport, likely: Sequence[Member] = ()
    ) -> dict[tuple[str, Member], GapTerms]:
        """The gap of each member after `period` periods; members that are not there yet are trained."""
        missing = dict.fromkeys(member for gap, member in wanted if (gap, member, period) not in self.measurements)
        self._asked.update(member for _, member in wanted)
        self._measure_states(missing)
        for member in missing:
            if self._periods_done(member) > period:
                del self.states[member]  # its measurement was lost: train it again to measure it again
        spare = [member for member in likely if member not in missing]
        before = self.trained_steps
        total = sum(self.setup.period * (period - self._periods_done(member)) for member in missing)

        def report_steps() -> None:
            report(self.trained_steps - before, total)

        for number in range(1, period + 1):
            for group in self._groups([member for member in missing if self._periods_done(member) < number]):
                ahead = self._to_train_ahead(spare, group, number)
                total += self.setup.period * len(ahead)
                self._train(group, ahead, number, report_steps)
        return {(gap, member): self.measurements[gap, member, period] for gap, member in wanted}

    def _periods_done(self, member: Member) -> int:
        state = self.states.get(member)
        return 0 if state is None else state.step // self.setup.period

    def _groups(self, members: list[Member]) -> Iterator[list[Member]]:
        """Members that train together."""
        if not members:
            return
        form = self.setup.form(max(member.latents for member in members))
        most = {} if self.slots is None else {"most": self.slots}
        for group in group_members(members, form, self.setup.device, **most):
            yield [members[position] for position in group]

    def _to_train_ahead(self, likely: Sequence[Member], group: Sequence[Member], period: int) -> list[Member]:
        """The likely members that fill the empty slots of a group's program: at its step, and not wider than it."""
        if self.slots is None:
            return []
        width, nests = self._width(group), self.setup.form(group[0].latents).nests
        fitting = (
            member
            for member in likely
            if (member.latents <= width if nests else member.latents == width)
            and member not in self._diverged
            and self._missing_gaps(member, period)
            and self._periods_done(member) == period - 1
        )
        return list(islice(fitting, self.slots - len(group)))

    def _width(self, group: Sequence[Member]) -> int:
        """Latents of the program for a group: those of the widest model asked for so far, so that it is built once."""
        nests = self.slots is not None and self.setup.form(group[0].latents).nests
        return max(member.latents for member in (self._asked if nests else group))

    def _train(self, asked: list[Member], ahead: list[Member], period: int, report: Callable[[], object]) -> None:
        """Train the members to the end of a period, and measure there those that were asked for."""
        members = asked + ahead
        trainer, stop = self._trainer_of(members), period * self.setup.period
        while trainer.state.step < stop:
            before = trainer.state.step
            try:
                trainer.advance(stop)
            except NonFiniteError as error:
                failed = trainer.members[error.member]
                if failed in asked:
                    raise
                self._diverged.add(failed)
                return self._train(asked, [member for member in ahead if member != failed], period, report)
            self.trained_steps += (trainer.state.step - before) * len(members)
            report()
        self.states.update({member: trainer.member_state(slot) for slot, member in enumerate(members)})
        self._ahead.update(ahead)
        for slot, member in enumerate(asked):
            self._measure(trainer, member, slot, period)

    def _measure_states(self, members: Iterable[Member]) -> None:
        """Measure states that were not: those trained ahead, or written by a process that was killed afterwards."""
        by_period: dict[int, list[Member]] = {}
        for member in members:
            done = self._periods_done(member)
            if done and self._missing_gaps(member, done):
                by_period.setdefault(done, []).append(member)
        for done, unmeasured in by_period.items():
            for group in self._groups(unmeasured):
                trainer = self._trainer_of(group)
                for slot, member in enumerate(group):
                    self._measure(trainer, member, slot, done)

    def _missing_gaps(self, member: Member, period: int) -> list[str]:
        """Labels of the gaps that were not measured after `period` periods."""
        return [label for label in self.gaps if (label, member, period) not in self.measurements]

    def _measure(self, trainer: Trainer, member: Member, slot: int, period: int) -> None:
        """Measure what is missing of the member in a slot, which has trained for `period` periods."""
        model = trainer.load_into(self._shell(member.latents), slot)
        evidence = _evidence(model, self._probe, self.setup.device)
        for label in self._missing_gaps(member, period):
            self.measurements[label, member, period] = measure(self.gaps[label], evidence)

    def _trainer_of(self, members: list[Member]) -> Trainer:
        """A trainer with these members in its first slots: with `slots` the same one while it is wide enough."""
        setup = self.setup
        states = [self.states.get(member) for member in members]
        if self.slots is not None:
            empty = self.slots - len(members)
            members, states = members + members[-1:] * empty, states + states[-1:] * empty
        width = self._width(members)
        if self.slots is None or self._trainer is None or not self._trainer.ensemble.holds(width):
            self._trainer = None  # frees its memory before another one is built
            self._trainer = Trainer(
                setup.modules,
                members,
                setup.plan,
                setup.data,
                None,
                setup.device,
                width,
                compile=setup.compile,
                planned_steps=setup.planned_steps,
            )
        if self._trainer.members != tuple(members) or self._trainer.state.step or any(states):
            self._trainer.assign_slots(members, states)
        return self._trainer

    def _shell(self, latents: int) -> TrainableModel:
        """A model to load weights into, on the device."""
        if latents not in self._shells:
            shell = self.setup.modules.build(self.setup.data.shape, latents, seed=0)
            self._shells[latents] = shell.to(self.setup.device).eval()
        return self._shells[latents]


class OwnPool:
    """Models that a function of the user trains, one after another; they stay in memory until the search ends."""

    trained_ahead = 0

    def __init__(self, setup: Setup, gaps: Mapping[str, Gap | GapFunction], train: TrainFunction) -> None:
        self.setup, self.gaps, self.train = setup, dict(gaps), train
        self.trained_steps = 0
        self._models: dict[Member, TrainableModel | ScviModel] = {}
        self._periods: dict[Member, int] = {}
        self._probe = setup.probe.to(setup.device)

    def measure(
        self, wanted: Sequence[tuple[str, Member]], period: int, report: StepsReport, likely: Sequence[Member] = ()
    ) -> dict[tuple[str, Member], GapTerms]:
        """The gap of each member after `period` periods of training; none is trained ahead."""
        found: dict[tuple[str, Member], GapTerms] = {}
        members, before = dict.fromkeys(member for _, member in wanted), self.trained_steps
        total = sum(self.setup.period * (period - self._periods.get(member, 0)) for member in members)
        for member in members:
            trained = self._trained(member, period, lambda: report(self.trained_steps - before, total))
            evidence = self._evidence(trained, member.latents)
            found |= {(gap, own): measure(self.gaps[gap], evidence) for gap, own in wanted if own == member}
        return found

    def _trained(self, member: Member, period: int, report: Callable[[], object]) -> TrainableModel | ScviModel:
        """The model of a member after `period` periods."""
        setup = self.setup
        if member not in self._models:
            self._models[member] = self._built(member)
        model = self._models[member]
        given = model.get_submodule("module") if isinstance(model, TrainableModel) else model
        for number in range(self._periods.get(member, 0) + 1, period + 1):
            train_period(self.train, given, setup.data, setup.period, member.seed, number, setup.device)
            self._periods[member] = number
            self.trained_steps += setup.period
            report()
        return model

    def _built(self, member: Member) -> TrainableModel | ScviModel:
        setup = self.setup
        if isinstance(setup.architecture, ScviModels):
            return setup.architecture.build(member.latents, member.seed)
        return setup.architecture.build(setup.data.shape, member.latents, member.seed).to(setup.device)

    def _evidence(self, model: TrainableModel | ScviModel, latents: int) -> Evidence:
        """A model and the codes of probe items; a model of scvi-tools encodes the cells that it was set up with."""
        if isinstance(model, TrainableModel):
            return _evidence(model, self._probe, self.setup.device)
        data, wrapped = self.setup.data, wrap(model)
        cells = wrapped.open(None)
        if cells.shape != data.shape or len(cells) < len(data):
            raise ConfigurationError(
                f"the factory must set up its models with the cells of {data.name}, items of shape {data.shape}, got "
                f"{len(cells)} of shape {cells.shape}. Pass the same AnnData to both."
            )
        found = _evidence(wrapped, cells.draw(self.setup.probe_items), self.setup.device)
        checked_factory_size(latents, tuple(found.codes.mean.shape[1:]), wrapped.name)
        return found


def _evidence(model: TrainableModel | WrappedModel, probe: Dataset, device: torch.device) -> Evidence:
    """The model and the codes of the probe items, on the device."""
    codes = encode(model, probe, progress=False)
    mean, variance, sample = (part.to(device) for part in (codes.mean, codes.variance, codes.sample))
    return Evidence(model, probe, replace(codes, mean=mean, variance=variance, sample=sample))


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
        self._search = self._new_search(spec.start, spec.near)

    def members(self) -> list[Member]:
        """The models to measure next."""
        return self._members(self._search.sizes)

    def likely_members(self) -> list[Member]:
        """The models to measure next, then those that may be asked for afterwards, the likeliest first."""
        return self._members((*self._search.sizes, *self._search.likely_next()))

    def _members(self, sizes: Sequence[int]) -> list[Member]:
        own = replace(self.spec.member, seed=self.seed)
        return [self.spec.axis.member(size, own) for size in sizes]

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
        self._search = self._new_search(max(1, found.latents), near=True)

    def _new_search(self, start: int, near: bool) -> Search:
        spec = self.spec
        return new_search(spec.search, start, spec.threshold, spec.width, spec.axis.largest, near)

    def _mostly_alive(self, found: SearchResult) -> bool:
        """Whether at least half of the model's latents are alive: before training none is, yet 1 is within 1."""
        if found.latents == 0:
            return False
        latents = self.spec.axis.member(found.latents, self.spec.member).latents
        return dict(found.gaps)[found.latents] <= latents / 2


def run_searches(pool: Pool, searches: Sequence[SeedSearch], report: ProgressReport) -> tuple[Answer, ...]:
    """Run all searches to their answers; searches in the same period share rounds of training."""
    while unfinished := [search for search in searches if search.answer is None]:
        period = min(search.period for search in unfinished)
        current = [search for search in unfinished if search.period == period]
        wanted = [(search.spec.gap, member) for search in current for member in search.members()]
        measured = pool.measure(wanted, period, _with_words(report, _status(current, period)), _likely(unfinished))
        for search in current:
            search.feed([measured[search.spec.gap, member] for member in search.members()])
    return tuple(search.answer for search in searches if search.answer is not None)


def _likely(searches: Sequence[SeedSearch]) -> list[Member]:
    """Models that the searches may ask for: the likeliest of each search, then the second of each, and so on."""
    ranks = zip_longest(*(search.likely_members() for search in searches))
    return list(dict.fromkeys(member for rank in ranks for member in rank if member is not None))


def _with_words(report: ProgressReport, words: str) -> StepsReport:
    return lambda done, total: report(done, words, total)


def _status(searches: Sequence[SeedSearch], period: int) -> str:
    """What trains now, and how far the search may still be: 'period 3 of at most 10, sizes 9 to 18, 3 seeds'."""
    axis, most = searches[0].spec.axis, max(search.spec.max_periods for search in searches)
    values = sorted({axis.of(member) for search in searches for member in search.members()})
    several = len(values) > 1
    name = ("sizes" if several else "size") if axis.name == LATENTS else axis.name
    trained = f"{name} {values[0]:.3g} to {values[-1]:.3g}" if several else f"{name} {values[0]:.3g}"
    seeds = f", {len(searches)} seeds" if len(searches) > 1 else ""
    return f"period {period} of at most {most}, {trained}{seeds}"
