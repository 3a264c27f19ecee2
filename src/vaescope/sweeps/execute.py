"""Run a job of a sweep: train its runs and measure them; an interrupted job resumes when it is run again."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from vaescope.errors import BusyError, NonFiniteError
from vaescope.runs.fitting import fit_many, has_failed
from vaescope.runs.measurements import measure
from vaescope.runs.run import Run
from vaescope.runs.store import Store
from vaescope.sweeps.jobs import Job

POLL_SECONDS = 0.5  # between attempts at a run that another process trains


def run_job(job: Job, runs: str | Path, device: str = "cpu", checkpoint_seconds: float = 20.0) -> tuple[str, ...]:
    """Train and measure what is missing of a job in a folder of runs; returns the ids of runs that did not diverge.

    A run that diverges is marked failed; the other runs of the job then start again without it. On a CPU one thread
    is used: the number of threads must not change the result, and jobs run side by side.
    """
    store = Store(Path(runs))
    members = [member for identity, member in zip(job.ids, job.members, strict=True) if not has_failed(store, identity)]
    options = replace(job.options, runs=runs, device=device, progress=False, checkpoint_seconds=checkpoint_seconds)
    found: list[Run] = []
    with single_thread(device):
        while len(found) < len(members):
            try:
                found = fit_many(job.data, members, options)
            except NonFiniteError as error:
                del members[error.member]
        for run in found:
            measure(run, job.measure, device)
    return tuple(run.id for run in found)


def run_job_when_free(
    job: Job, runs: str | Path, device: str = "cpu", checkpoint_seconds: float = 20.0, max_seconds: float = math.inf
) -> tuple[str, ...]:
    """Run a job; if another process trains a run of it, wait for that at most `max_seconds`."""
    until = time.monotonic() + max_seconds
    while True:
        try:
            return run_job(job, runs, device, checkpoint_seconds)
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
