"""Perform a job of a sweep: train its runs, measure them; stopped at any moment, the same call goes on."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from vaescope.errors import BusyError, NonFiniteError
from vaescope.runs.fitting import fit_many, has_failed
from vaescope.runs.measurements import measure
from vaescope.runs.run import Run
from vaescope.runs.store import Store
from vaescope.sweeps.jobs import Job

PAUSE = 0.5  # seconds between two looks at a run that another process trains


def perform(job: Job, runs: str | Path, device: str = "cpu", checkpoint_seconds: float = 20.0) -> tuple[str, ...]:
    """Train and measure what is missing of a job, in a folder of runs; the ids of its runs that did not diverge.

    A run that diverges is marked failed and says why; the others of the job then begin again without it. On a CPU one
    thread: how many there are must not change the bits, and jobs run side by side.
    """
    store = Store(Path(runs))
    members = [member for identity, member in zip(job.ids, job.members, strict=True) if not has_failed(store, identity)]
    where = {"runs": runs, "device": device, "progress": False, "checkpoint_seconds": checkpoint_seconds}
    found: list[Run] = []
    with single_thread(device):
        while len(found) < len(members):
            try:
                found = fit_many(job.data, members, **job.settings, **where)
            except NonFiniteError as error:
                del members[error.member]
        for run in found:
            measure(run, job.measure, device)
    return tuple(run.id for run in found)


def run_job_when_free(
    job: Job, runs: str | Path, device: str = "cpu", checkpoint_seconds: float = 20.0, patience: float = math.inf
) -> tuple[str, ...]:
    """Perform a job; runs that another process trains are waited for, so many seconds at most."""
    until = time.monotonic() + patience
    while True:
        try:
            return perform(job, runs, device, checkpoint_seconds)
        except BusyError:
            if time.monotonic() > until:
                raise
        time.sleep(PAUSE)


@contextmanager
def single_thread(device: str) -> Iterator[None]:
    """One thread while work on a CPU lasts: how many there are must not change the numbers."""
    before = torch.get_num_threads()
    if torch.device(device).type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
