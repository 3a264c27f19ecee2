"""Jobs on this machine: on a GPU one after another, on a CPU as many at once as there are cores."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for
from pathlib import Path

import torch

from vaescope.checks import whole_number
from vaescope.errors import RunError
from vaescope.runs.jobs import perform
from vaescope.runs.sweep import Job


def local(
    jobs: Sequence[Job],
    runs: Path,
    *,
    device: str = "cpu",
    workers: int | None = None,
    checkpoint_seconds: float = 20.0,
) -> Iterator[Job]:
    """Each job when it is done, by `workers` processes: one for each core if left out, none on a GPU or for one job."""
    count = _workers(workers, len(jobs), device)
    if count == 1:
        for job in jobs:
            perform(job, runs, device, checkpoint_seconds)
            yield job
        return
    # Spawned, not forked: threads of torch do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context, initializer=_end_with_parent) as pool:
        waiting = {pool.submit(perform, job, runs, device, checkpoint_seconds): job for job in jobs}
        try:
            yield from _as_done(waiting)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _end_with_parent() -> None:
    """A process whose parent was killed would train on, hold its locks, and then wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait_for([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _workers(workers: int | None, jobs: int, device: str) -> int:
    if workers is not None:
        return min(whole_number("workers", workers, 1), max(jobs, 1))
    if torch.device(device).type != "cpu":
        return 1
    return max(1, min(len(os.sched_getaffinity(0)), jobs))


def _as_done(waiting: dict[Future[tuple[str, ...]], Job]) -> Iterator[Job]:
    open_ones = set(waiting)
    while open_ones:
        done, open_ones = wait(open_ones, return_when=FIRST_COMPLETED)
        for one in done:
            try:
                one.result()
            except BrokenProcessPool as error:
                raise RunError(
                    "a process that trained was killed, perhaps for want of memory. Ask for the same sweep again: what "
                    "was trained is kept. Fewer workers need less memory."
                ) from error
            yield waiting[one]
