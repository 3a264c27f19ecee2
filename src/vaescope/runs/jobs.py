"""Perform a job of a sweep: train its runs, measure them; stopped at any moment, the same call goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from vaescope.runs.fitting import fit_many
from vaescope.runs.measuring import measure
from vaescope.runs.sweep import Job


def perform(job: Job, runs: str | Path, device: str = "cpu", checkpoint_seconds: float = 20.0) -> tuple[str, ...]:
    """Train and measure what is missing of a job, in a folder of runs; the ids of its runs.

    On a CPU one thread: how many there are must not change the bits, and jobs run side by side.
    """
    with one_thread(device):
        found = fit_many(
            job.data,
            list(job.members),
            **job.settings,
            runs=runs,
            device=device,
            progress=False,
            checkpoint_seconds=checkpoint_seconds,
        )
        for run in found:
            measure(run, job.measure)
    return tuple(run.id for run in found)


@contextmanager
def one_thread(device: str) -> Iterator[None]:
    """One thread while work on a CPU lasts: how many there are must not change the numbers."""
    before = torch.get_num_threads()
    if torch.device(device).type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
