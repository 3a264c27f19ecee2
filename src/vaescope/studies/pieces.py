"""The plan of a study: everything it asks for, cut into pieces of at most ten minutes that can be shared by machines.

How pieces are cut and shared depends on the requests and the kind of device alone, so that every machine comes to the
same pieces. What is estimated for a piece depends on the machine as well: on how long earlier pieces took there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch

from vaescope.checks import finite_number, whole_number
from vaescope.errors import ConfigurationError
from vaescope.files import write_atomically
from vaescope.notebook import NotebookResult
from vaescope.runs import DEFAULT_MODEL, Store, make_folder, naming
from vaescope.studies.context import MeasureRequest, StudyContext, StudyRun, Task, net_of
from vaescope.studies.results import JsonTable, ResultKey
from vaescope.sweeps import Job, data_name

PIECE_SECONDS = 600.0
STEP_TIMES_FILE = "step_times.json"
MEASURE_SECONDS = 2.0  # to measure one run, about
Item = TypeVar("Item")

# Seconds of a step of an ensemble: a part that does not depend on its members, and a part for each of them. On an H200
# (cuda) and on one core of an AMD EPYC (cpu), from benchmarks/RESULTS.md.
STEP_SECONDS: dict[tuple[str, str, str], tuple[float, float]] = {
    ("cuda", "conv", "bfloat16"): (0.38e-3, 0.076e-3),
    ("cuda", "conv", "tf32"): (0.4e-3, 0.23e-3),
    ("cuda", "mlp", "tf32"): (0.35e-3, 0.03e-3),
    ("cpu", "conv", "float32"): (0.0, 50e-3),
    ("cpu", "fully_connected", "float32"): (0.0, 8e-3),
    ("cpu", "mlp", "float32"): (0.8e-3, 0.2e-3),
}
DEFAULT_STEP_SECONDS = {"cuda": (0.4e-3, 0.12e-3), "cpu": (0.0, 4e-3)}
SETUP_SECONDS = {"cuda": 25.0, "cpu": 0.5}  # compiling the program of an ensemble


class Speed(NamedTuple):
    """What a step time is known by: the kind of device, the kind of net, the precision."""

    device: str
    net: str
    precision: str

    @property
    def step_seconds(self) -> tuple[float, float]:
        """The part of a step that does not depend on the members of an ensemble, and the part of each member."""
        return STEP_SECONDS.get(self, DEFAULT_STEP_SECONDS[self.device])

    def seconds(self, models: float, steps: float, after: float = 0.0) -> float:
        """The reference time of an ensemble, with `after` seconds more for each model."""
        fixed, each = self.step_seconds
        training = SETUP_SECONDS[self.device] + steps * (fixed + each * models) if models and steps else 0.0
        return training + after * models

    def models_within(self, seconds: float, steps: float, after: float = 0.0) -> int:
        """The largest ensemble whose reference time is at most `seconds`; at least one model."""
        fixed, each = self.step_seconds
        rest = seconds - SETUP_SECONDS[self.device] - steps * fixed
        return max(1, math.floor(rest / (steps * each + after)))


class StepTimes:
    """How much longer than the reference pieces took on this machine, by kind of net; kept in the folder of runs."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / STEP_TIMES_FILE
        self._spent: dict[str, dict[str, float]] = {}
        with naming(self._file, "Move it elsewhere: times are measured again."), suppress(FileNotFoundError):
            for name, one in json.loads(self._file.read_bytes()).items():
                self._spent[name] = {part: finite_number(part, one[part], above=0) for part in ("seconds", "reference")}

    def factor(self, speed: Speed) -> float:
        """The measured time over the reference; 1 before anything was measured."""
        spent = self._spent.get(" ".join(speed))
        return 1.0 if spent is None else spent["seconds"] / spent["reference"]

    def add(self, speed: Speed, seconds: float, reference: float) -> None:
        """Remember what a piece took."""
        spent = self._spent.setdefault(" ".join(speed), {"seconds": 0.0, "reference": 0.0})
        spent["seconds"] += seconds
        spent["reference"] += reference
        make_folder(self._file.parent)
        write_atomically(self._file, json.dumps(self._spent, indent=1).encode())


@dataclass(frozen=True)
class TrainPiece:
    """Models that train together, and what is measured of each."""

    job: Job
    requests: tuple[MeasureRequest, ...]
    missing: tuple[str, ...]  # ids of the runs that lack a result, or that a task needs

    @property
    def runs(self) -> tuple[str, ...]:
        """Ids of the runs that it trains."""
        return self.job.ids


@dataclass(frozen=True)
class TaskPiece:
    """Some parts of a task."""

    task: Task
    missing: tuple[int, ...]  # parts that lack a result

    @property
    def runs(self) -> tuple[str, ...]:
        """Ids of the runs that it needs."""
        return tuple(run.id for run in self.task.needs)


@dataclass(frozen=True)
class Piece:
    """What is done without a stop.

    Attributes:
        reference: Seconds of all of it on the reference machine.
        remaining: The same of what is missing.
        seconds: What is missing takes about this long on this machine.
        share: The share that it belongs to.
    """

    title: str
    models: int
    steps: int
    work: TrainPiece | TaskPiece = field(repr=False)
    speed: Speed
    reference: float
    remaining: float
    seconds: float
    share: int = 1

    @property
    def done(self) -> bool:
        """Whether nothing is missing."""
        return not self.work.missing


@dataclass(frozen=True)
class StudyPlan(NotebookResult):
    """The pieces of a study, in the order in which they are done.

    Attributes:
        share: The one that this machine takes.
        absent: Data sets that could not be opened here, on which nothing is planned.
        lacks_data: Whether these are all that the study is about.
    """

    study: str
    pieces: tuple[Piece, ...]
    share: tuple[int, int] | None = None
    absent: tuple[str, ...] = ()
    lacks_data: bool = False

    @property
    def reference_minutes(self) -> float:
        """Minutes of all pieces, one after another, on the reference machine."""
        return sum(piece.reference for piece in self.pieces) / 60

    @property
    def missing(self) -> tuple[Piece, ...]:
        """What this machine has to do."""
        return tuple(piece for piece in self.left if self.share is None or piece.share == self.share[0])

    @property
    def left(self) -> tuple[Piece, ...]:
        """What this machine and others have to do."""
        return tuple(piece for piece in self.pieces if not piece.done)

    def rows(self) -> list[JsonTable]:
        """One row for each piece."""
        rows: list[JsonTable] = []
        for number, piece in enumerate(self.pieces, 1):
            share = {} if self.share is None else {"share": f"{piece.share}/{self.share[1]}"}
            about = {"what": piece.title, "models": piece.models, "steps": piece.steps}
            minutes = None if piece.done else round(piece.seconds / 60, 2)
            rows.append(
                {"piece": number, **share, **about, "minutes": minutes, "state": "done" if piece.done else "missing"}
            )
        return rows

    def summary(self) -> str:
        """How many pieces there are, what is done, and what the others take."""
        own = self.missing
        if not self.pieces:
            return f"{self.study} trains nothing"
        if not self.left:
            return f"{self.study}: all {len(self.pieces)} pieces are done"
        mine = "" if self.share is None else f"; share {self.share[0]}/{self.share[1]} has {len(own)} of them to do"
        return (
            f"{self.study}: {len(self.left)} of {len(self.pieces)} pieces are missing{mine}, about "
            f"{sum(piece.seconds for piece in own) / 60:.1f} minutes one after another"
        )

    def plain(self) -> JsonTable:
        """All of it for JSON."""
        return {"study": self.study, "summary": self.summary(), "pieces": self.rows()}


def parse_share(text: str) -> tuple[int, int]:
    """A share of a study's pieces: '3/8' is the third of eight."""
    first, _, last = text.partition("/")
    if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
        raise ConfigurationError(f"piece must be a share such as 3/8, the third of eight, got {text!r}.")
    return int(first), int(last)


def plan_study(
    study: str, context: StudyContext, share: tuple[int, int] | None = None, piece_seconds: float = PIECE_SECONDS
) -> StudyPlan:
    """Cut what was asked for into pieces, and see which of them are done.

    Trainings come in the order of their requests, a task right after the last of the runs that it needs or at the end.
    """
    times = StepTimes(Path(context.settings.runs))
    trainings = list(_trainings(context, times, piece_seconds))
    last = {identity: at for at, piece in enumerate(trainings) for identity in piece.work.runs}
    placed = list(enumerate(trainings))
    for piece in _tasks(context, times, piece_seconds):
        placed.append((max((last[identity] for identity in piece.work.runs), default=len(trainings)), piece))
    pieces = [piece for _, piece in sorted(placed, key=itemgetter(0))]
    if share is not None:
        pieces = _shared(pieces, whole_number("the number of shares", share[1], 1))
    absent = tuple(dict.fromkeys(context.absent))
    return StudyPlan(study, tuple(pieces), share, absent, bool(absent) and context.data <= set(absent))


def part_of(job: Job, ids: Container[str]) -> Job:
    """The job with some of its runs alone."""
    kept = [one for one in zip(job.members, job.ids, job.positions, strict=True) if one[1] in ids]
    members, own, positions = zip(*kept, strict=True)
    return replace(job, members=members, ids=own, positions=positions)


def _trainings(context: StudyContext, times: StepTimes, limit: float) -> Iterator[Piece]:
    wanted: dict[str, dict[ResultKey, MeasureRequest]] = {}
    jobs: dict[tuple[str, ...], dict[str, StudyRun]] = {}
    for request in context.requests:
        for run in request.needs if isinstance(request, Task) else (request.run,):
            jobs.setdefault(run.job.ids, {}).setdefault(run.id, run)
            own = wanted.setdefault(run.id, {})
            if isinstance(request, MeasureRequest):
                own[request.key] = request
    needed = _needed_weights(context)
    for runs in jobs.values():
        job = part_of(next(iter(runs.values())).job, runs)
        data, options = context.dataset(job.data), job.options
        held_out = options.held_out if isinstance(options.held_out, int) else round(options.held_out * len(data))
        steps, speed = options.plan(len(data) - held_out).steps, Speed(_kind(context), *net_of(job))
        for part in _cut(job.ids, speed.models_within(limit, steps, MEASURE_SECONDS)):
            requests = [request for identity in part for request in wanted[identity].values()]
            lacking = {request.run.id for request in requests if context.store.find(request.key) is None}
            missing = tuple(identity for identity in part if identity in lacking | needed)
            work = TrainPiece(part_of(job, part), tuple(requests), missing)
            whole, rest = (speed.seconds(count, steps, MEASURE_SECONDS) for count in (len(part), len(missing)))
            yield Piece(_title(job), len(part), steps, work, speed, whole, rest, rest * times.factor(speed))


def _tasks(context: StudyContext, times: StepTimes, limit: float) -> Iterator[Piece]:
    known: set[tuple[ResultKey, ...]] = set()
    for task in context.requests:
        if not isinstance(task, Task):
            continue
        parts = [part for part, keys in task.parts.items() if keys not in known]
        known.update(task.parts.values())
        speed, after = Speed(_kind(context), *task.net), MEASURE_SECONDS * len(task.needs)
        most = max(1, math.floor(speed.models_within(limit, task.steps, after) / task.models))
        for own in _cut(parts, most):
            missing = tuple(part for part in own if _is_missing(task, part, context))
            models, work = math.ceil(task.models * len(own)), TaskPiece(task, missing)
            whole = speed.seconds(models, task.steps, after)
            rest = speed.seconds(task.models * len(missing), task.steps, after)
            shown = len(task.needs) or models
            yield Piece(task.title, shown, task.steps, work, speed, whole, rest, rest * times.factor(speed))


def _is_missing(task: Task, part: int, context: StudyContext) -> bool:
    return any(context.store.find(key) is None for key in task.parts[part])


def _needed_weights(context: StudyContext) -> set[str]:
    """Runs that a missing part of a task needs and that are not trained on this machine."""
    store = Store(Path(context.settings.runs))
    tasks = [task for task in context.requests if isinstance(task, Task)]
    missing = [task for task in tasks if any(_is_missing(task, part, context) for part in task.parts)]
    ids = {run.id for task in missing for run in task.needs}
    return {identity for identity in ids if not store.is_complete(identity)}


def _kind(context: StudyContext) -> str:
    return torch.device(context.device).type


def _title(job: Job) -> str:
    objective = type(job.members[0].objective).__name__
    model = DEFAULT_MODEL if job.options.model is None else job.options.model
    name = model["name"] if isinstance(model, Mapping) else model
    return f"{name}, {objective}, {data_name(job.data)}"


def _cut(items: Sequence[Item], most: int) -> list[Sequence[Item]]:
    """Even parts of at most `most` items."""
    count = -(-len(items) // most)
    return [items[len(items) * at // count : len(items) * (at + 1) // count] for at in range(count)]


def _shared(pieces: Sequence[Piece], shares: int) -> list[Piece]:
    """Pieces with the share that does each: the longest first, to the share with the least to do.

    A task stays on the machine that has the weights that it needs.
    """
    bundle, runs = list(range(len(pieces))), [set(piece.work.runs) for piece in pieces]
    for own in runs:
        joined = {bundle[at] for at, other in enumerate(runs) if not own.isdisjoint(other)}
        bundle = [min(joined) if one in joined else one for one in bundle]
    weights: dict[int, float] = dict.fromkeys(bundle, 0.0)
    for one, piece in zip(bundle, pieces, strict=True):
        weights[one] += piece.reference
    loads, chosen = [0.0] * shares, {}
    for one in sorted(weights, key=lambda one: (-weights[one], one)):
        least = loads.index(min(loads))
        chosen[one], loads[least] = least + 1, loads[least] + weights[one]
    return [replace(piece, share=chosen[one]) for one, piece in zip(bundle, pieces, strict=True)]
