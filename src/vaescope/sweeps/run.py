"""Run a sweep: plan what is missing, perform it by an engine, and gather the table of all its runs."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from vaescope.data import open_dataset
from vaescope.errors import NonFiniteError
from vaescope.notebook import NotebookResult
from vaescope.objectives.strengths import form
from vaescope.progress import progress_bar
from vaescope.runs.columns import drop_constant_settings
from vaescope.runs.measurements import measure
from vaescope.runs.options import FitOptions, choose_device
from vaescope.runs.rows import summary_row
from vaescope.runs.run import COMPLETE, Run
from vaescope.runs.store import DEFAULT_FOLDER, Store
from vaescope.sweeps.engines import get_engine
from vaescope.sweeps.jobs import Job, is_done, make_jobs
from vaescope.sweeps.specification import Sweep, data_name
from vaescope.training import Trainer
from vaescope.training.layout import Layout

TRIAL = 3  # timed steps from which a job's time is estimated
STATES = 4  # a run keeps its weights, and with the optimiser's two moments its parameters once more
NUMBER = 4  # bytes
ROW = 220  # bytes of a row of the history, or so
CHECKPOINT = 20.0  # seconds


@dataclass(frozen=True)
class SweepPlan(NotebookResult):
    """What a sweep asks for: its jobs, which of them are done, and what the others will take."""

    jobs: tuple[Job, ...]
    done: tuple[bool, ...]
    seconds: tuple[float, ...]
    megabytes: float

    def rows(self) -> list[dict[str, Any]]:
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
        """How many runs there are, how they group, what is done, and what the rest takes."""
        runs = sum(len(job.ids) for job in self.jobs)
        done = sum(len(job.ids) for job, is_done in zip(self.jobs, self.done, strict=True) if is_done)
        return (
            f"{runs} runs in {len(self.jobs)} jobs, {done} done; the others take about "
            f"{_duration(sum(self.seconds))} one after another and {self.megabytes:.0f} MB."
        )


def plan_sweep(sweep: Sweep, *, runs: str | Path = DEFAULT_FOLDER, device: str | None = None) -> SweepPlan:
    """What the sweep would do; a few steps of each kind of job are trained to know how long it takes."""
    chosen = choose_device(device)
    jobs = make_jobs(sweep, chosen)
    folder = Path(FitOptions(runs=runs).runs)
    done = [is_done(job, folder) for job in jobs]
    known: dict[Any, tuple[float, int, int]] = {}
    seconds, size = [], 0.0
    for job, finished in zip(jobs, done, strict=True):
        if finished:
            seconds.append(0.0)
            continue
        size_of = len(job.members), max(member.latents for member in job.members)
        key = (str(job.data), str(job.settings), form(job.members[0].objective), *size_of)
        if key not in known:
            known[key] = _timed(job, chosen)
        each, steps, parameters = known[key]
        seconds.append(each * steps)
        size += len(job.ids) * (STATES * NUMBER * parameters + ROW * 60)
    return SweepPlan(tuple(jobs), tuple(done), tuple(seconds), size / 1e6)


def run_sweep(
    sweep: Sweep,
    *,
    runs: str | Path = DEFAULT_FOLDER,
    engine: str = "local",
    device: str | None = None,
    progress: bool | None = None,
    checkpoint_seconds: float = CHECKPOINT,
    **options: Any,
) -> list[dict[str, Any]]:
    """Train and measure every run of the sweep that is missing, by an engine; one row for each run, as the grid goes.

    Runs that diverge stop no other: their rows say 'failed', and their folders why.

    `options` are the engine's: `workers` of 'local', `address` of 'ray'.
    """
    folder, chosen = Path(FitOptions(runs=runs).runs), choose_device(device)
    jobs = make_jobs(sweep, chosen)
    train_jobs(jobs, folder, engine, chosen, progress, checkpoint_seconds=checkpoint_seconds, **options)
    return rows_of(jobs, folder)


def train_jobs(
    jobs: list[Job], folder: Path, engine: str, device: str, progress: bool | None = None, **options: Any
) -> None:
    """Perform the jobs that are not done."""
    missing = [job for job in jobs if not is_done(job, folder)]
    total = sum(len(job.ids) for job in jobs)
    done = total - sum(len(job.ids) for job in missing)
    with progress_bar("sweep", total, progress) as report:
        report(done)
        if missing:
            for job in get_engine(engine)(missing, folder, device=device, **options):
                done += len(job.ids)
                report(done)


def rows_of(jobs: list[Job], runs: Path) -> list[dict[str, Any]]:
    """One row for each run of finished jobs: its settings, the ends of its history, and what was measured, if any."""
    pairs = open_runs(jobs, runs)
    rows = [summary_row(run.record, run.history) for run, _ in pairs]
    values = [measure(run, job.measure) if run.status == COMPLETE else {} for run, job in pairs]
    return drop_constant_settings([{**row, **own} for row, own in zip(rows, values, strict=True)])


def open_runs(jobs: list[Job], runs: Path) -> list[tuple[Run, Job]]:
    """The runs of finished jobs in the order of the sweep's grid, each with its job."""
    store = Store(runs)
    placed = [(place, identity, job) for job in jobs for place, identity in zip(job.places, job.ids, strict=True)]
    return [(Run.open(store.path(identity)), job) for _, identity, job in sorted(placed, key=lambda one: one[0])]


def _timed(job: Job, device: str) -> tuple[float, int, int]:
    """Seconds of a step of a job, how many steps it has, and the parameters of one of its models."""
    chosen, data = FitOptions.of(job.settings), open_dataset(job.data)
    training, held_out = chosen.split().of(data)
    whole = chosen.plan(len(training))
    short = replace(whole, steps=TRIAL + 1, log_every=1, evaluate_every=TRIAL + 1, monitor_every=0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        trainer = Trainer(chosen.architecture(data), job.members, short, training, held_out, device)
        trainer.advance()
        began = time.perf_counter()
        for _ in range(TRIAL - 1):
            trainer.advance()
        each = (time.perf_counter() - began) / (TRIAL - 1)
    except NonFiniteError:
        each = 0.0  # it diverges at once, and takes no time
    finally:
        torch.set_num_threads(threads)
    return each, whole.steps, Layout.of(trainer.model()).size


def _span(values: list[int]) -> str:
    return str(values[0]) if len(set(values)) == 1 else f"{min(values)} to {max(values)}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
