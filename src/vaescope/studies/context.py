"""What a study works with: its settings, what it asks for, and the values that are there.

Asking trains nothing. A value is looked up when it is read, and `MissingResults` is raised where it is not there yet; a
study therefore asks for everything first and reads afterwards, so that one attempt tells all that is missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, overload

from vaescope.data import DataLike, Dataset, open_dataset
from vaescope.errors import ConfigurationError, RunError, VaescopeError
from vaescope.runs import COMPLETE, Run, Store, choose_device, hash_of
from vaescope.studies.results import JsonTable, Result, ResultKey, ResultStore
from vaescope.studies.schedules import shortened_grid, shortened_objective
from vaescope.studies.settings import QUICK, StudySettings
from vaescope.sweeps import Job, Sweep, data_name, make_jobs
from vaescope.training import Member

ABSENT = "data not found"
COMPARE = "compare"  # in place of the precision, where models are compared and not trained
Choice = TypeVar("Choice")
Key = TypeVar("Key")


class MissingResults(Exception):
    """A value was read that is not measured yet; `StudyContext` knows what was asked for."""


@dataclass(frozen=True)
class StudyRun:
    """A run that a study needs, trained or not: its id and the job that would train it."""

    id: str
    job: Job = field(repr=False, compare=False)
    member: Member = field(repr=False, compare=False)


def grouped(keys: Iterable[Key], runs: Sequence[StudyRun]) -> dict[Key, list[StudyRun]]:
    """The runs of a sweep by the values of its grid, where as many runs, one for each seed, follow for each value."""
    known = list(keys)
    each = len(runs) // len(known)
    return {key: list(runs[each * at : each * (at + 1)]) for at, key in enumerate(known)}


def quick_training(widths: Sequence[int], steps: int, **settings: object) -> JsonTable:
    """Settings of a small net with these widths on both sides, whose history is its last step alone."""
    net = {"name": "mlp", "encoder_widths": list(widths), "decoder_widths": list(widths)}
    return {"net": net, "steps": steps, "log_every": steps, "evaluate_every": steps, **settings}


@dataclass(frozen=True)
class Measurement:
    """A value measured from one run by `function(run, data, device, **options)`; small enough for a JSON file.

    `data` is the data set that the run was trained on. Raise `version` when the function's values change.
    """

    name: str
    function: Callable[..., Any]
    options: JsonTable = field(default_factory=dict)
    version: int = 1

    def key(self, subject: str) -> ResultKey:
        """Where the value of a subject is kept: of a run by its id, of several by a hash of their ids."""
        return ResultKey.of(subject, self.name, self.options, self.version)


@dataclass(frozen=True)
class GroupMeasurement(Measurement):
    """A value measured from groups of runs by `function(groups, data, device, **options)`.

    The runs of all groups must be trained on the same machine. Without `steps` it takes about as long as measuring
    does; a comparison that trains something itself says how many steps that takes.
    """

    steps: int = 0


@dataclass(frozen=True)
class MeasureRequest:
    """One measurement of one run."""

    run: StudyRun
    measurement: Measurement
    key: ResultKey


@dataclass(frozen=True)
class Task:
    """Work other than runs of a sweep, in parts that can be done apart, usually seeds.

    Attributes:
        title: What a plan calls it.
        net: The kind of net and the precision, which step times are known by.
        parts: For each part the keys of its results.
        models: Models trained for one part, about.
        steps: Steps of each of these models, about.
        perform: Does the given parts and yields each result as soon as it is known.
        needs: Runs that must be trained before, on the same machine.
    """

    title: str
    net: tuple[str, str]
    parts: Mapping[int, tuple[ResultKey, ...]]
    models: float
    steps: int
    perform: Callable[[Sequence[int]], Iterable[tuple[ResultKey, Result]]] = field(repr=False, compare=False)
    needs: tuple[StudyRun, ...] = ()


class Values(Sequence[Any]):
    """Values by the order of the runs, read from the store when they are looked at."""

    def __init__(self, store: ResultStore, keys: Sequence[ResultKey]) -> None:
        self._store, self.keys = store, tuple(keys)

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> Values: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return Values(self._store, self.keys[place])
        result = self._result(self.keys[place])
        if result.failure is not None:
            raise RunError(
                f"a study needs all of its runs; {self.keys[place].subject} diverged ({result.failure}). Ask for fewer "
                "seeds or another device, or move the run and its result away to try again."
            )
        return result.value

    @property
    def finished(self) -> list[Any]:
        """The values of the runs that did not diverge."""
        return [result.value for result in map(self._result, self.keys) if result.failure is None]

    @property
    def diverged(self) -> int:
        """How many runs diverged."""
        return len(self) - len(self.finished)

    @property
    def made(self) -> list[JsonTable]:
        """How each value was made."""
        return [dict(self._result(key).made) for key in self.keys]

    def _result(self, key: ResultKey) -> Result:
        result = self._store.find(key)
        if result is None:
            raise MissingResults(f"{key.measurement} of {key.subject} is not measured yet")
        return result


class StudyContext:
    """One attempt at a study: it collects what the study asks for, and hands out the values that are there.

    Attributes:
        requests: What was asked for, in this order.
        notes: For the reader.
        data: Names of the data that the study is about.
        absent: Those of them that could not be opened.
        cuts: The share of the training on each data set where it is less than all.
    """

    def __init__(
        self, settings: StudySettings, store: ResultStore | None = None, opened: dict[str, Dataset] | None = None
    ) -> None:
        self.settings = settings
        self.store = ResultStore(settings.results_folder) if store is None else store
        self.requests: list[MeasureRequest | Task] = []
        self.notes: list[str] = []
        self.data: set[str] = set()
        self.absent: list[str] = []
        self.cuts: dict[str, float] = {}
        self._opened = {} if opened is None else opened
        self._jobs: dict[str, tuple[Job, int]] = {}

    @property
    def device(self) -> str:
        """The device of the runs, which need not be there to plan or to read results; default: a GPU if there is one.

        What a study trains may depend on the device, such as its precision.
        """
        return choose_device(None) if self.settings.device is None else self.settings.device

    def verified_device(self) -> str:
        """The device, which must be there to compute on."""
        return choose_device(self.settings.device)

    @property
    def is_quick(self) -> bool:
        """Whether the scale is 'quick'."""
        return self.settings.scale == QUICK

    def pick(self, quick: Choice, paper: Choice) -> Choice:
        """The one for the scale."""
        return quick if self.is_quick else paper

    def seed_list(self, quick: int, paper: int) -> list[int]:
        """The seeds to train: as many as were asked for, or the study's own number at this scale."""
        return list(range(self.settings.seeds or self.pick(quick, paper)))

    def note(self, text: str) -> None:
        """Add a note for the reader, once."""
        if text not in self.notes:
            self.notes.append(text)

    def scale_words(self) -> str:
        """The scale, and what was cut of its training."""
        cuts = ", ".join(f"{share:.3g} on {name}" for name, share in self.cuts.items())
        return f"{self.settings.scale} (of the training {cuts})" if cuts else self.settings.scale

    def open(self, name: str, **options: object) -> Dataset | None:
        """A data set; None, with a note that says why, where its files are absent or it was not asked for."""
        self.data.add(name)
        chosen = self.settings.data
        if chosen and name not in chosen:
            self.note(f"left out: {name}, of the data only {', '.join(chosen)} being asked for.")
            return None
        try:
            return self.dataset({"name": name, **options} if options else name)
        except VaescopeError as error:
            self.absent.append(name)
            self.note(f"{ABSENT}: {name}. {error}")
            return None

    def dataset(self, source: DataLike) -> Dataset:
        """A data set by its name or table, opened once."""
        text = json.dumps(source, sort_keys=True, default=str)
        if text not in self._opened:
            if isinstance(source, Mapping):
                options = {name: value for name, value in source.items() if name != "name"}
                self._opened[text] = open_dataset(data_name(source), **options)
            else:
                self._opened[text] = open_dataset(source)
        return self._opened[text]

    def runs(self, sweep: Sweep) -> list[StudyRun]:
        """The runs of a sweep in the order of its grid, cut to the share to be trained. This trains nothing."""
        name = data_name(sweep.data)
        chosen = self.settings.data
        if chosen and name not in chosen:
            raise ConfigurationError(
                f"data must name {name}, which this study is trained on, got {', '.join(chosen)}. Name it, or leave "
                "data out."
            )
        placed: dict[int, StudyRun] = {}
        self.dataset(sweep.data)
        for job in make_jobs(self.shortened(sweep), self.device, self._opened):
            for at, (identity, place) in enumerate(zip(job.ids, job.positions, strict=True)):
                # Runs that several sweeps have in common train in the company that they were first asked for in.
                first, where = self._jobs.setdefault(identity, (job, at))
                placed[place] = StudyRun(identity, first, first.members[where])
        return [placed[place] for place in sorted(placed)]

    def measured(self, runs: Sequence[StudyRun], measurement: Measurement) -> Values:
        """The value of every run."""
        requests = [MeasureRequest(run, measurement, measurement.key(run.id)) for run in runs]
        self.requests += requests
        return Values(self.store, [request.key for request in requests])

    def measured_by(self, groups: Mapping[Key, Sequence[StudyRun]], measurement: Measurement) -> dict[Key, Values]:
        """The value of every run of each group."""
        return {key: self.measured(runs, measurement) for key, runs in groups.items()}

    def compared(self, groups: Sequence[Sequence[StudyRun]], comparison: GroupMeasurement) -> Values:
        """The one value of groups of runs."""
        key = comparison.key(hash_of([[run.id for run in group] for group in groups]))
        needs = tuple({run.id: run for group in groups for run in group}.values())
        job = needs[0].job

        def compare(_: Sequence[int]) -> Iterator[tuple[ResultKey, Result]]:
            store = Store(Path(self.settings.runs))
            runs = {run.id: Run.open(store.path(run.id)) for run in needs}
            failed = [run for run in runs.values() if run.status != COMPLETE]
            if failed:
                yield key, Result(None, f"run {failed[0].id} diverged")
                return
            opened = [[runs[run.id] for run in group] for group in groups]
            yield key, Result(comparison.function(opened, self.dataset(job.data), self.device, **comparison.options))

        net, precision = net_of(job)
        title = f"{comparison.name} of {len(needs)} models, {data_name(job.data)}"
        known_by = (net, precision if comparison.steps else COMPARE)
        return self.computed(Task(title, known_by, {0: (key,)}, 1, comparison.steps, compare, needs), [key])

    def computed(self, task: Task, keys: Sequence[ResultKey]) -> Values:
        """Some of the values of a task."""
        self.requests.append(task)
        return Values(self.store, keys)

    def shortened(self, sweep: Sweep) -> Sweep:
        """The sweep with the share of its steps or epochs that is to be trained, and of its objective's schedules."""
        name = data_name(sweep.data)
        settings, share = self.cut(sweep.settings, name), self.settings.share_of(name)
        if settings == dict(sweep.settings):
            return sweep
        objective = shortened_objective(sweep.objective, share)
        return replace(sweep, settings=settings, objective=objective, grid=shortened_grid(sweep.grid, share))

    def cut(self, settings: Mapping[str, Any], data: str) -> JsonTable:
        """Settings with the share of their steps or epochs that is to be trained on some data, which is logged."""
        self.data.add(data)
        share = self.settings.share_of(data)
        lengths = {name: share * settings[name] for name in ("steps", "epochs") if settings.get(name) is not None}
        if share == 1 or not lengths:
            return dict(settings)
        self.cuts[data] = share
        return {**settings, **{name: max(1, round(to)) if name == "steps" else to for name, to in lengths.items()}}

    def check_names(self, study: str) -> None:
        """After the study's work: data that it is not about are refused, shares of such data are noted."""
        if self.settings.data and not self.data:
            raise ConfigurationError(f"{study} is about no data, got {', '.join(self.settings.data)}. Leave data out.")
        shares = self.settings.share if isinstance(self.settings.share, Mapping) else ()
        for name in shares:
            if name not in self.data:
                self.note(f"share of {name}: this study is not about it.")


def net_of(job: Job) -> tuple[str, str]:
    """The kind of net and the precision of a job, which step times are known by."""
    net = job.options.net or "mlp"
    return str(net["name"] if isinstance(net, Mapping) else net), job.options.precision
