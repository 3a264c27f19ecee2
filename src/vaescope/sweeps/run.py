"""Run a sweep: plan what is missing, train it with an engine, and return the table of all runs."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from vaescope.data import open_dataset
from vaescope.errors import NonFiniteError
from vaescope.notebook import NotebookResult
from vaescope.objectives import form
from vaescope.progress import progress_bar
from vaescope.runs.measurements import measure
from vaescope.runs.options import FitOptions, choose_device
from vaescope.runs.record import COMPLETE
from vaescope.runs.rows import Row, drop_constant_settings, summary_row
from vaescope.runs.run import Run
from vaescope.runs.store import DEFAULT_FOLDER, Store
from vaescope.sweeps.engines import get_engine
from vaescope.sweeps.jobs import EngineOptions, Job, is_done, make_jobs, single_thread
from vaescope.sweeps.specification import Sweep, data_name
from vaescope.training import Trainer
from vaescope.training.layout import Layout

TIMED_STEPS = 3
STORED_COPIES = 4  # of the parameters: model, checkpoint, and the optimiser's two moments
NUMBER_BYTES = 4
HISTORY_ROW_BYTES, HISTORY_ROWS = 220, 60
CHECKPOINT_SECONDS = 20.0


@dataclass(frozen=True)
class SweepPlan(NotebookResult):
    """The jobs of a sweep, which of them are done, and how long the others take."""

    jobs: tuple[Job, ...]
    done: tuple[bool, ...]
    seconds: tuple[float, ...]
    megabytes: float

    def rows(self) -> list[Row]:
        """One row for each job."""
        return [
            {
                "job": job.number,
                "runs": len(job.ids),
                "data": data_name(job.data),
                "latents": _span([member.latents for member in job.members]),
                "seeds": _span([member.seed for member in job.members]),
                "objective": type(job.members[0].objective).__name__,
                "state": "done" if done else "to do",
                "seconds": None if done else seconds,
            }
            for job, done, seconds in zip(self.jobs, self.done, self.seconds, strict=True)
        ]

    def summary(self) -> str:
        """The number of runs and jobs, how many are done, and what the others need."""
        runs = sum(len(job.ids) for job in self.jobs)
        done = sum(len(job.ids) for job, is_done in zip(self.jobs, self.done, strict=True) if is_done)
        return (
            f"{runs} runs in {len(self.jobs)} jobs, {done} done; the others take about "
            f"{_duration(sum(self.seconds))} one after another and {self.megabytes:.0f} MB."
        )


def plan_sweep(sweep: Sweep, *, runs: str | Path = DEFAULT_FOLDER, device: str | None = None) -> SweepPlan:
    """What the sweep would do; a few steps of each kind of job are trained to estimate its time."""
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
) -> list[Row]:
    """Train and measure every run of the sweep that is missing; returns one row for each run, in the grid's order.

    A run that diverges does not stop the others: its row has the status 'failed', and its folder says why.

    Args:
        runs: Folder that holds the runs.
        engine: 'local' (processes on this machine) or 'ray' (a cluster).
        device: Default: 'cuda' if there is a GPU, else 'cpu'.
        progress: Whether to show a progress bar. Default: on a terminal only.
        checkpoint_seconds: Time between checkpoints.
        workers: Number of processes of the local engine. Default: one per core on a CPU, one on a GPU.
        address: Address of the Ray cluster, for the engine 'ray'.
    """
    folder, chosen = Path(FitOptions(runs=runs).runs), choose_device(device)
    jobs, options = make_jobs(sweep, chosen), EngineOptions(folder, chosen, checkpoint_seconds, workers, address)
    missing = [job for job in jobs if not is_done(job, folder)]
    total = sum(len(job.ids) for job in jobs)
    done = total - sum(len(job.ids) for job in missing)
    with progress_bar("sweep", total, progress) as report:
        report(done)
        if missing:
            for job in get_engine(engine)(missing, options):
                done += len(job.ids)
                report(done)
    return rows_of(jobs, folder)


def rows_of(jobs: list[Job], runs: Path) -> list[Row]:
    """The row of each run of finished jobs, in the order of the grid: settings, last values, and measurements."""
    positions = [(position, one, job) for job in jobs for position, one in zip(job.positions, job.ids, strict=True)]
    rows = []
    for _, identity, job in sorted(positions, key=lambda each: each[0]):
        run = Run.open(Store(runs).path(identity))
        measured = measure(run, job.measure) if run.status == COMPLETE else {}
        rows.append({**summary_row(run.record, run.history), **measured})
    return drop_constant_settings(rows)


def _time_job(job: Job, device: str) -> tuple[float, int, int]:
    """Seconds per step of a job, its number of steps, and the number of parameters of one of its models."""
    data = open_dataset(job.data)
    training, held_out = job.options.split().of(data)
    plan = job.options.plan(len(training))
    short = replace(plan, steps=TIMED_STEPS + 1, log_every=1, evaluate_every=TIMED_STEPS + 1, monitor_every=0)
    with single_thread("cpu"):
        trainer = Trainer(job.options.architecture(data), job.members, short, training, held_out, device)
        try:
            trainer.advance()
            began = time.perf_counter()
            for _ in range(TIMED_STEPS - 1):
                trainer.advance()
            each = (time.perf_counter() - began) / (TIMED_STEPS - 1)
        except NonFiniteError:
            each = 0.0  # it diverges at once and takes no time
    return each, plan.steps, Layout.of(trainer.model()).size


def _span(values: list[int]) -> str:
    return str(values[0]) if len(set(values)) == 1 else f"{min(values)} to {max(values)}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
