"""Jobs of a sweep: runs that train together as one program and are measured; an interrupted job resumes."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from vaescope.data import DataLike, Dataset, open_dataset
from vaescope.errors import BusyError, NonFiniteError
from vaescope.objectives import form
from vaescope.runs.configuration import Configuration
from vaescope.runs.fitting import fit_followed, group_configurations
from vaescope.runs.following import Follower
from vaescope.runs.measurements import MeasurementSpec, is_measured, measure
from vaescope.runs.options import FitOptions
from vaescope.runs.record import FAILED
from vaescope.runs.run import Run
from vaescope.runs.store import Store
from vaescope.sweeps.specification import Sweep, Trial
from vaescope.training import Member

POLL_SECONDS = 0.5  # between attempts at a run that another process trains


@dataclass(frozen=True)
class Job:
    """Runs that train as one program and are measured afterwards; a job can be sent to another process or machine.

    `number` is the job's position in the sweep, `positions` are those of its runs among all runs of the sweep.
    `steps` is the length of training of each run.
    """

    number: int
    data: DataLike
    options: FitOptions
    members: tuple[Member, ...]
    ids: tuple[str, ...]
    positions: tuple[int, ...]
    measure: MeasurementSpec
    steps: int


@dataclass(frozen=True)
class EngineOptions:
    """Settings of an engine that do not affect results.

    Attributes:
        runs: Folder that holds the runs.
        device: The device to train on.
        checkpoint_seconds: Time between checkpoints.
        workers: Number of processes of the local engine; default: one per core on a CPU; on a GPU, this process alone.
        address: Cluster of the engine 'ray': 'auto' for the one that this machine belongs to, or 'host:port'; default:
            RAY_ADDRESS if it is set, else a local cluster that ends with the call.
        follower: Receives the rows of the runs, in the process that calls the engine; default: none.
    """

    runs: Path
    device: str = "cpu"
    checkpoint_seconds: float = 20.0
    workers: int | None = None
    address: str | None = None
    follower: Follower = field(default_factory=Follower, compare=False)

    def elsewhere(self) -> EngineOptions:
        """The options for another process, which sends no rows: the engine reads them from files."""
        return replace(self, follower=Follower())


def make_jobs(sweep: Sweep, device: torch.device | str = "cpu", opened: dict[str, Dataset] | None = None) -> list[Job]:
    """The runs of a sweep in the groups that they train in, which depend only on the sweep and the kind of device.

    Equal runs occur once. With any engine and any interruptions, a job trains the same models in the same groups, so
    the results are equal, bit for bit on a CPU. Data sets are looked up in `opened`, by their
    source as JSON, and added to it.
    """
    kind = torch.device(torch.device(device).type)
    # Trials of one group differ only in settings of members.
    groups: dict[tuple[object, ...], list[tuple[int, Trial]]] = {}
    for position, trial in enumerate(sweep.trials()):
        key = _text(trial.data), _text(trial.settings), form(trial.member.objective)
        groups.setdefault(key, []).append((position, trial))
    opened = {} if opened is None else opened
    for source, data in {_text(trials[0][1].data): trials[0][1].data for trials in groups.values()}.items():
        if source not in opened:
            opened[source] = open_dataset(data)
        sweep.measure.check(opened[source])
    jobs: list[Job] = []
    seen: set[str] = set()
    for trials in groups.values():
        first = trials[0][1]
        data, options = opened[_text(first.data)], FitOptions.of(first.settings)
        configurations = options.configurations(data, [trial.member for _, trial in trials])
        known: dict[str, tuple[int, Configuration]] = {}
        for configuration, (position, _) in zip(configurations, trials, strict=True):
            known.setdefault(configuration.id, (position, configuration))
        # Equal settings may be written differently: 'mlp', and a table with only that name.
        ids = sorted(set(known) - seen)
        seen.update(ids)
        for group in group_configurations([known[identity][1] for identity in ids], data.shape, kind):
            own = tuple(one.id for one in group)
            positions = tuple(known[identity][0] for identity in own)
            members = tuple(one.member for one in group)
            steps = group[0].plan.steps
            jobs.append(Job(len(jobs), first.data, options, members, own, positions, sweep.measure, steps))
    return jobs


def is_done(job: Job, runs: Path) -> bool:
    """Whether every run of a job is trained and measured, or has diverged."""
    store = Store(runs)
    return all(
        is_measured(Run.open(store.path(identity)), job.measure)
        if store.is_complete(identity)
        else store.status(identity) == FAILED
        for identity in job.ids
    )


def _text(value: object) -> str:
    """The same text for equal tables."""
    return json.dumps(value, sort_keys=True, default=str)


def run_job(job: Job, engine: EngineOptions) -> None:
    """Train and measure the missing runs of a job.

    A run that diverges is marked failed; the other runs of the job then start again without it. On a CPU one thread
    is used: the number of threads must not change the result, and jobs run side by side.
    """
    store, device = Store(engine.runs), engine.device
    pairs = zip(job.ids, job.members, strict=True)
    members = [member for identity, member in pairs if store.status(identity) != FAILED]
    seconds = engine.checkpoint_seconds
    options = replace(job.options, runs=engine.runs, device=device, progress=False, checkpoint_seconds=seconds)
    found: list[Run] = []
    with single_thread(device):
        while len(found) < len(members):
            try:
                found = fit_followed(job.data, members, options, engine.follower)
            except NonFiniteError as error:
                del members[error.member]
        for run in found:
            measure(run, job.measure, device)


def run_job_when_free(job: Job, engine: EngineOptions, max_seconds: float = math.inf) -> None:
    """Run a job; if another process trains a run of it, wait for it, at most `max_seconds`."""
    until = time.monotonic() + max_seconds
    while True:
        try:
            run_job(job, engine)
            return
        except BusyError:
            if time.monotonic() > until:
                raise
        time.sleep(POLL_SECONDS)


@contextmanager
def single_thread(device: str) -> Iterator[None]:
    """Use one thread on a CPU: the number of threads must not change the numbers."""
    before = torch.get_num_threads()
    if torch.device(device).type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
