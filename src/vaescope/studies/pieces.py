"""The plan of a study: everything it asks for, cut into pieces of at most ten minutes that can be shared by machines.

How pieces are cut and shared depends on the requests and the kind of device alone, so that every machine comes to the
same pieces. What is estimated for a piece depends on the machine as well: on how long earlier pieces took there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import torch

from vaescope.checks import whole_number
from vaescope.errors import ConfigurationError, RunError
from vaescope.notebook import NotebookResult
from vaescope.runs import Store, is_complete, make_folder
from vaescope.studies.context import StudyContext
from vaescope.studies.requests import CompareRequest, MeasureRequest, Request, StudyRun, Task
from vaescope.studies.results import JsonTable, ResultKey
from vaescope.sweeps import Job, data_name
from vaescope.training import write_atomically

PIECE_SECONDS = 600.0
STEP_TIMES_FILE = "step_times.json"
MEASURE_SECONDS = 2.0  # to measure one run, about
COMPARE = "compare"
Item = TypeVar("Item")

# Seconds of a step of an ensemble: a part that does not depend on its members, and a part for each of them. On an H200
# (cuda) and on one core of an AMD EPYC (cpu), from benchmarks/RESULTS.md.
STEP_SECONDS: dict[tuple[str, str, str], tuple[float, float]] = {
    ("cuda", "conv", "bfloat16"): (0.4e-3, 0.112e-3),
    ("cuda", "conv", "tf32"): (0.4e-3, 0.23e-3),
    ("cuda", "mlp", "tf32"): (0.35e-3, 0.03e-3),
    ("cpu", "conv", "float32"): (0.0, 50e-3),
    ("cpu", "fully_connected", "float32"): (0.0, 8e-3),
    ("cpu", "mlp", "float32"): (0.8e-3, 0.2e-3),
}
DEFAULT_STEP_SECONDS = {"cuda": (0.4e-3, 0.12e-3), "cpu": (0.0, 4e-3)}
SETUP_SECONDS = {"cuda": 25.0, "cpu": 0.5}  # compiling the program of an ensemble


@dataclass(frozen=True)
class Speed:
    """What a step time is known by: the kind of device, the kind of net, the precision."""

    device: str
    net: str
    precision: str

    @property
    def name(self) -> str:
        """The key in the file of step times."""
        return f"{self.device} {self.net} {self.precision}"

    def seconds(self, models: float, steps: float) -> float:
        """The reference time of an ensemble."""
        fixed, each = STEP_SECONDS.get((self.device, self.net, self.precision), DEFAULT_STEP_SECONDS[self.device])
        return SETUP_SECONDS[self.device] + steps * (fixed + each * models)

    def models_within(self, seconds: float, steps: float, after: float = 0.0) -> int:
        """The largest ensemble that trains within a time, with `after` seconds more for each model; at least one."""
        fixed, each = STEP_SECONDS.get((self.device, self.net, self.precision), DEFAULT_STEP_SECONDS[self.device])
        rest = seconds - SETUP_SECONDS[self.device] - steps * fixed
        return max(1, math.floor(rest / (steps * each + after)))


class StepTimes:
    """How much longer than the reference pieces took on this machine, by kind of net; kept in the folder of runs."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / STEP_TIMES_FILE
        self._spent: dict[str, dict[str, float]] = {}
        if self._file.is_file():
            try:
                kept = json.loads(self._file.read_text(encoding="utf-8"))
                self._spent = {name: {part: float(one[part]) for part in _PARTS} for name, one in kept.items()}
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise RunError(f"{self._file} is damaged ({error}). Move it away: times are measured again.") from error

    def factor(self, speed: Speed) -> float:
        """The measured time over the reference; 1 before anything was measured."""
        spent = self._spent.get(speed.name)
        return 1.0 if spent is None else spent["seconds"] / spent["reference"]

    def add(self, speed: Speed, seconds: float, reference: float) -> None:
        """Remember what a piece took."""
        before = self._spent.get(speed.name, dict.fromkeys(_PARTS, 0.0))
        both = zip(_PARTS, (seconds, reference), strict=True)
        self._spent[speed.name] = {part: before[part] + more for part, more in both}
        make_folder(self._file.parent)
        write_atomically(self._file, json.dumps(self._spent, indent=1).encode())


_PARTS = ("seconds", "reference")


@dataclass(frozen=True)
class TrainPiece:
    """Models that train together, and what is measured of each."""

    job: Job
    requests: tuple[MeasureRequest, ...]
    missing: tuple[str, ...]  # ids of the runs that lack a result, or that a comparison needs

    def remaining_job(self) -> Job:
        """The job without the runs that are done."""
        return part_of(self.job, self.missing)


@dataclass(frozen=True)
class TaskPiece:
    """Some parts of a task; those that are missing."""

    task: Task
    parts: tuple[int, ...]
    missing: tuple[int, ...]


@dataclass(frozen=True)
class ComparePiece:
    """A comparison of runs that are trained before it."""

    request: CompareRequest
    missing: tuple[ResultKey, ...]


@dataclass(frozen=True)
class Piece:
    """What is done without a stop.

    Attributes:
        reference: Seconds of all of it on the reference machine.
        remaining: The same of what is missing.
        factor: How much longer this machine takes.
        share: The share that it belongs to.
    """

    title: str
    models: int
    steps: int
    work: TrainPiece | TaskPiece | ComparePiece = field(repr=False)
    speed: Speed
    reference: float
    remaining: float
    factor: float
    share: int = 1

    @property
    def seconds(self) -> float:
        """What is missing takes about this long here."""
        return self.remaining * self.factor

    @property
    def done(self) -> bool:
        """Whether nothing is missing."""
        return not self.work.missing


@dataclass(frozen=True)
class StudyPlan(NotebookResult):
    """The pieces of a study, in the order in which they are done; `share` is the one that this machine takes."""

    study: str
    pieces: tuple[Piece, ...]
    share: tuple[int, int] | None = None

    @property
    def missing(self) -> tuple[Piece, ...]:
        """What this machine has to do."""
        return tuple(piece for piece in self.pieces if not piece.done and self.is_mine(piece))

    @property
    def missing_elsewhere(self) -> tuple[Piece, ...]:
        """What other machines have to do."""
        return tuple(piece for piece in self.pieces if not piece.done and not self.is_mine(piece))

    def is_mine(self, piece: Piece) -> bool:
        """Whether a piece belongs to the share of this machine."""
        return self.share is None or piece.share == self.share[0]

    def rows(self) -> list[JsonTable]:
        """One row for each piece."""
        shares = {} if self.share is None else {"share": None}
        return [
            {
                "piece": number,
                **{name: f"{piece.share}/{self.share[1]}" for name in shares if self.share is not None},
                "what": piece.title,
                "models": piece.models,
                "steps": piece.steps,
                "minutes": None if piece.done else round(piece.seconds / 60, 2),
                "state": "done" if piece.done else "missing",
            }
            for number, piece in enumerate(self.pieces, 1)
        ]

    def summary(self) -> str:
        """How many pieces there are, what is done, and what the others take."""
        missing = [piece for piece in self.pieces if not piece.done]
        if not self.pieces:
            return f"{self.study} trains nothing"
        if not missing:
            return f"{self.study}: all {len(self.pieces)} pieces are done"
        own = self.missing
        mine = "" if self.share is None else f"; share {self.share[0]}/{self.share[1]} has {len(own)} of them to do"
        seconds = sum(piece.seconds for piece in (missing if self.share is None else own))
        return (
            f"{self.study}: {len(missing)} of {len(self.pieces)} pieces are missing{mine}, about "
            f"{seconds / 60:.1f} minutes one after another"
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
    """Cut what was asked for into pieces, and see which of them are done."""
    times = StepTimes(Path(context.settings.runs))
    kind = torch.device(context.device).type
    builder = _Builder(context, kind, times, piece_seconds)
    pieces = builder.pieces()
    if share is not None:
        whole_number("the number of shares", share[1], 1)
        pieces = _shared(pieces, share[1])
    return StudyPlan(study, tuple(pieces), share)


def part_of(job: Job, ids: Iterable[str]) -> Job:
    """The job with some of its runs alone."""
    wanted = set(ids)
    places = [at for at, identity in enumerate(job.ids) if identity in wanted]
    return replace(
        job,
        members=tuple(job.members[at] for at in places),
        ids=tuple(job.ids[at] for at in places),
        positions=tuple(job.positions[at] for at in places),
    )


@dataclass
class _Builder:
    """Turns the requests of an attempt into pieces."""

    context: StudyContext
    device: str
    times: StepTimes
    limit: float

    def pieces(self) -> list[Piece]:
        """Pieces in the order of their requests, a comparison right after the last of the runs that it needs."""
        found: list[tuple[tuple[int, int], Piece]] = []
        for order, piece in enumerate([*self._trainings(), *self._tasks()]):
            found.append(((order, 0), piece))
        for request in self._comparisons().values():
            ids = {run.id for run in request.runs}
            last = max(order for (order, _), piece in found if ids & set(_ids(piece)))
            found.append(((last, 1), self._comparison(request)))
        return [piece for _, piece in sorted(found, key=lambda one: one[0])]

    def _trainings(self) -> Iterator[Piece]:
        wanted: dict[str, dict[ResultKey, MeasureRequest]] = {}
        runs: dict[str, StudyRun] = {}
        for request in self._requests():
            if isinstance(request, Task):
                continue
            for run in [request.run] if isinstance(request, MeasureRequest) else request.runs:
                runs.setdefault(run.id, run)
                own = wanted.setdefault(run.id, {})
                if isinstance(request, MeasureRequest):
                    own[request.key] = request
        jobs: dict[tuple[str, ...], list[str]] = {}
        for identity, run in runs.items():
            jobs.setdefault(run.job.ids, []).append(identity)
        needed = self._needed_weights()
        for ids in jobs.values():
            job = part_of(runs[ids[0]].job, ids)
            steps, speed = self._steps(job), self._speed(job)
            for part in _cut(job.ids, speed.models_within(self.limit, steps, MEASURE_SECONDS)):
                requests = [request for identity in part for request in wanted[identity].values()]
                lacking = {request.run.id for request in requests if self.context.store.find(request.key) is None}
                missing = tuple(identity for identity in part if identity in lacking | needed)
                work = TrainPiece(part_of(job, part), tuple(requests), missing)
                yield self._piece(_title(job), len(part), steps, work, speed, len(missing), MEASURE_SECONDS)

    def _tasks(self) -> Iterator[Piece]:
        known: set[tuple[ResultKey, ...]] = set()
        for task in self._requests():
            if not isinstance(task, Task):
                continue
            parts = [part for part, keys in task.parts.items() if keys not in known]
            known.update(task.parts.values())
            speed = Speed(self.device, *task.net)
            most = max(1, math.floor(speed.models_within(self.limit, task.steps) / task.models))
            for own in _cut(parts, most):
                missing = tuple(
                    part for part in own if any(self.context.store.find(key) is None for key in task.parts[part])
                )
                models = math.ceil(task.models * len(own))
                work = TaskPiece(task, tuple(own), missing)
                yield self._piece(task.title, models, task.steps, work, speed, task.models * len(missing), 0.0)

    def _comparison(self, request: CompareRequest) -> Piece:
        job, steps = request.runs[0].job, request.comparison.steps
        missing = () if self.context.store.find(request.key) is not None else (request.key,)
        speed = replace(self._speed(job), precision=COMPARE) if not steps else self._speed(job)
        reference = MEASURE_SECONDS * len(request.runs) + (speed.seconds(1, steps) if steps else 0.0)
        title = f"{request.comparison.name} of {len(request.runs)} models, {data_name(job.data)}"
        work, rest = ComparePiece(request, missing), reference if missing else 0.0
        return Piece(title, len(request.runs), steps, work, speed, reference, rest, self.times.factor(speed))

    def _piece(
        self,
        title: str,
        models: int,
        steps: int,
        work: TrainPiece | TaskPiece,
        speed: Speed,
        missing: float,
        each: float,
    ) -> Piece:
        whole = speed.seconds(models, steps) + each * models
        rest = speed.seconds(missing, steps) + each * missing if missing else 0.0
        return Piece(title, models, steps, work, speed, whole, rest, self.times.factor(speed))

    def _requests(self) -> list[Request]:
        return self.context.requests

    def _comparisons(self) -> dict[ResultKey, CompareRequest]:
        return {request.key: request for request in self._requests() if isinstance(request, CompareRequest)}

    def _needed_weights(self) -> set[str]:
        """Runs that a missing comparison needs and that are not trained on this machine."""
        store = Store(Path(self.context.settings.runs))
        missing = [one for key, one in self._comparisons().items() if self.context.store.find(key) is None]
        ids = {run.id for request in missing for run in request.runs}
        return {identity for identity in ids if not is_complete(store, identity)}

    def _steps(self, job: Job) -> int:
        chosen, data = job.options, self.context.dataset(job.data)
        held_out = chosen.held_out if isinstance(chosen.held_out, int) else round(chosen.held_out * len(data))
        return chosen.plan(len(data) - held_out).steps

    def _speed(self, job: Job) -> Speed:
        net = job.options.net or "mlp"
        name = str(net["name"] if isinstance(net, Mapping) else net)
        return Speed(self.device, name, job.options.precision)


def _title(job: Job) -> str:
    objective = type(job.members[0].objective).__name__
    model = job.options.model
    name = model["name"] if isinstance(model, Mapping) else model
    return f"{name}, {objective}, {data_name(job.data)}"


def _ids(piece: Piece) -> tuple[str, ...]:
    return piece.work.job.ids if isinstance(piece.work, TrainPiece) else ()


def _cut(items: Sequence[Item], most: int) -> list[Sequence[Item]]:
    """Even parts of at most `most` items."""
    count = -(-len(items) // most)
    return [items[len(items) * at // count : len(items) * (at + 1) // count] for at in range(count)]


def _shared(pieces: Sequence[Piece], shares: int) -> list[Piece]:
    """Pieces with the share that does each: the longest first, to the share with the least to do.

    Pieces that a comparison ties together stay on one machine, which has the weights.
    """
    bundle = list(range(len(pieces)))
    for piece in pieces:
        if isinstance(piece.work, ComparePiece):
            ids = {run.id for run in piece.work.request.runs}
            tied = [at for at, other in enumerate(pieces) if other is piece or ids & set(_ids(other))]
            joined = {bundle[at] for at in tied}
            bundle = [min(joined) if one in joined else one for one in bundle]
    weights: dict[int, float] = {}
    for at, piece in enumerate(pieces):
        weights[bundle[at]] = weights.get(bundle[at], 0.0) + piece.reference
    loads, chosen = [0.0] * shares, {}
    for one in sorted(weights, key=lambda one: (-weights[one], one)):
        least = loads.index(min(loads))
        chosen[one], loads[least] = least + 1, loads[least] + weights[one]
    return [replace(piece, share=chosen[bundle[at]]) for at, piece in enumerate(pieces)]
