"""Run a sweep: plan the missing runs, train them with an engine, and return the table of all runs."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vaescope.data import open_dataset
from vaescope.errors import NonFiniteError
from vaescope.notebook import NotebookResult
from vaescope.objectives import OBJECTIVES, form
from vaescope.progress import duration
from vaescope.registry import PartSpec
from vaescope.runs.following import Follower
from vaescope.runs.measurements import measure
from vaescope.runs.options import FitOptions, choose_device
from vaescope.runs.record import COMPLETE
from vaescope.runs.recorded_row import OnRow
from vaescope.runs.rows import Row, drop_constant_settings, strengths_of, summary_row
from vaescope.runs.run import Run
from vaescope.runs.store import DEFAULT_FOLDER, Store
from vaescope.runs.trackers import Tracker
from vaescope.runs.type_counts import with_measured
from vaescope.sweeps.engines import get_engine
from vaescope.sweeps.jobs import EngineOptions, Job, is_done, make_jobs, single_thread
from vaescope.sweeps.specification import ENGINE_KEYS, Sweep, data_name
from vaescope.sweeps.watching import shown_progress
from vaescope.training import Trainer
from vaescope.training.layout import Layout

TIMED_STEPS = 3
STORED_COPIES = 4  # copies of the parameters on disk: model, checkpoint, and the optimiser's two moments
NUMBER_BYTES = 4
HISTORY_ROW_BYTES, HISTORY_ROWS = 220, 60
MAX_LISTED = 3  # values of a setting that a row of the plan lists
CHECKPOINT_SECONDS = 20.0


@dataclass(frozen=True)
class SweepPlan(NotebookResult):
    """The jobs of a sweep, which of them are done, and how long the others take."""

    jobs: tuple[Job, ...]
    done: tuple[bool, ...]
    seconds: tuple[float, ...]
    megabytes: float

    def rows(self) -> list[Row]:
        """One row for each job: its data and latents, what else differs between or within jobs, and its state."""
        settings = [_settings(job) for job in self.jobs]
        names = list(dict.fromkeys(name for one in settings for name in one))
        differing = [name for name in names if len({value for one in settings for value in one.get(name, (None,))}) > 1]
        shown = [name for name in names if name in ("data", "latents") or name in differing]
        return [
            {
                "job": job.number,
                "runs": len(job.ids),
                **{name: _span(own[name]) if name in own else None for name in shown},
                "state": "done" if done else "to do",
                "seconds": None if done else seconds,
            }
            for job, own, done, seconds in zip(self.jobs, settings, self.done, self.seconds, strict=True)
        ]

    def summary(self) -> str:
        """The number of runs and jobs, how many are done, and the time and space for the others."""
        runs = sum(len(job.ids) for job in self.jobs)
        done = sum(len(job.ids) for job, is_done in zip(self.jobs, self.done, strict=True) if is_done)
        jobs = f"{len(self.jobs)} {'job' if len(self.jobs) == 1 else 'jobs'}"
        return (
            f"{runs} runs in {jobs}, {done} done; the others take about "
            f"{duration(sum(self.seconds))} one after another and {self.megabytes:.0f} MB."
        )


def plan_sweep(sweep: Sweep, *, runs: str | Path = DEFAULT_FOLDER, device: str | None = None) -> SweepPlan:
    """The plan of a sweep; a few steps of each kind of job are trained to estimate its time."""
    chosen = choose_device(device)
    jobs = make_jobs(sweep, chosen)
    folder = Path(FitOptions(runs=runs).runs)
    done = [is_done(job, folder) for job in jobs]
    known: dict[tuple[object, ...], tuple[float, int, int]] = {}
    seconds, size = [], 0.0
    for job, finished in zip(jobs, done, strict=True):
        if finished:
            seconds.append(0.0)
            continue
        widest = max(member.latents for member in job.members)
        key = (str(job.data), str(job.options), form(job.members[0].objective), len(job.members), widest)
        if key not in known:
            known[key] = _time_job(job, chosen)
        each, steps, parameters = known[key]
        seconds.append(each * steps)
        size += len(job.ids) * (STORED_COPIES * NUMBER_BYTES * parameters + HISTORY_ROW_BYTES * HISTORY_ROWS)
    return SweepPlan(tuple(jobs), tuple(done), tuple(seconds), size / 1e6)


def run_sweep(
    sweep: Sweep,
    *,
    runs: str | Path = DEFAULT_FOLDER,
    engine: str = "local",
    device: str | None = None,
    progress: bool | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    workers: int | None = None,
    address: str | None = None,
    on_row: OnRow | None = None,
    tracker: PartSpec[Tracker] | None = None,
) -> list[Row]:
    """Train and measure every run of the sweep that is missing; returns one row for each run, in the grid's order.

    A run that diverges does not stop the others: its row has the status 'failed', and its folder says why.

    Args:
        runs: Folder that holds the runs.
        engine: 'local' (processes on this machine) or 'ray' (a cluster).
        device: Default: 'cuda' if there is a GPU, else 'cpu'.
        progress: Whether to show progress: a bar on a terminal, lines in a log. Default: True.
        checkpoint_seconds: Time between checkpoints.
        workers: Number of processes of the local engine. Default: one per core on a CPU, one on a GPU.
        address: Address of the Ray cluster, for the engine 'ray'.
        on_row: Receives each row of the history of every run, as `fit` documents it, in this process and with every
            engine. If it raises an exception, the sweep stops as with Ctrl-C; rows recorded by other processes until
            they stop are not sent.
        tracker: Where to show the runs while they train: 'tensorboard', 'mlflow' or 'wandb'. Default: nowhere.
    """
    follower = Follower(on_row, tracker)
    folder, chosen = Path(FitOptions(runs=runs).runs), choose_device(device)
    jobs = make_jobs(sweep, chosen)
    options = EngineOptions(folder, chosen, checkpoint_seconds, workers, address, follower)
    missing = [job for job in jobs if not is_done(job, folder)]
    done = {job.number for job in jobs} - {job.number for job in missing}
    if missing:
        with shown_progress(jobs, done, folder, progress):
            for job in get_engine(engine)(missing, options):
                done.add(job.number)
    return rows_of(jobs, folder)


def rows_of(jobs: list[Job], runs: Path) -> list[Row]:
    """The row of each run of finished jobs, in the order of the grid: settings, last values, and measurements."""
    positions = [(position, one, job) for job in jobs for position, one in zip(job.positions, job.ids, strict=True)]
    rows = []
    for _, identity, job in sorted(positions, key=lambda each: each[0]):
        run = Run.open(Store(runs).path(identity))
        measured = measure(run, job.measure) if run.status == COMPLETE else {}
        rows.append(with_measured(summary_row(run.record, run.history), measured, job.measure.items))
    return drop_constant_settings(rows)


def _time_job(job: Job, device: str) -> tuple[float, int, int]:
    """Seconds per step of a job, its number of steps, and the number of parameters of one of its models."""
    data = open_dataset(job.data)
    training, held_out = job.options.split().of(data)
    plan = job.options.plan(len(training))
    short = replace(plan, steps=TIMED_STEPS + 1, log_every=1, evaluate_every=TIMED_STEPS + 1, monitor_every=0)
    with single_thread("cpu"):
        architecture = job.options.architecture(data)
        trainer = Trainer(architecture, job.members, short, training, held_out, device, planned_steps=plan.steps)
        try:
            trainer.advance()
            began = time.perf_counter()
            for _ in range(TIMED_STEPS - 1):
                trainer.advance()
            each = (time.perf_counter() - began) / (TIMED_STEPS - 1)
        except NonFiniteError:
            each = 0.0  # it diverges immediately and takes no time
    return each, plan.steps, Layout.of(trainer.model()).size


def _settings(job: Job) -> dict[str, list[Any]]:
    """The settings of a job, with their distinct values: those of its members, and those that members share."""
    data = job.data if isinstance(job.data, Mapping) and len(job.data) > 1 else data_name(job.data)
    rows: list[Row] = []
    for member in job.members:
        objective = OBJECTIVES.plain(member.objective)
        own = {"latents": member.latents, "objective": objective["name"], **strengths_of(objective)}
        rows.append({"data": _text(data), **own, "learning_rate": member.learning_rate, "seed": member.seed})
    shared = {name: _text(value) for name, value in vars(job.options).items() if name not in ENGINE_KEYS}
    return {
        **{name: sorted({row[name] for row in rows}) for name in rows[0]},
        **{name: [value] for name, value in shared.items()},
    }


def _text(value: object) -> object:
    return json.dumps(value, default=str) if isinstance(value, list | tuple | Mapping) else value


def _span(values: Sequence[Any]) -> object:
    """The values of a job: up to three in full."""
    if len(values) == 1:
        return values[0]
    return ", ".join(map(str, values)) if len(values) <= MAX_LISTED else f"{values[0]} to {values[-1]}"
