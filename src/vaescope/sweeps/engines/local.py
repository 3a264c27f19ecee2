"""Jobs on this machine: on a GPU one after another, on a CPU as many at once as there are cores."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from pathlib import Path

import torch

from vaescope.checks import whole_number
from vaescope.errors import BusyError, RunError
from vaescope.sweeps.execute import perform, run_job_when_free
from vaescope.sweeps.jobs import Job

STOPPING = 30.0  # seconds to write a checkpoint


def local(
    jobs: Sequence[Job],
    runs: Path,
    *,
    device: str = "cpu",
    workers: int | None = None,
    checkpoint_seconds: float = 20.0,
) -> Iterator[Job]:
    """Each job when it is done, by `workers` processes: one for each core if left out, none on a GPU or for one job.

    Jobs with a run that another process trains come last, when that is done.
    """
    _check_not_repeated()
    count = _workers(workers, len(jobs), device)
    where = (runs, device, checkpoint_seconds)
    busy = []
    for job, is_done in _one_by_one(jobs, *where) if count == 1 else _side_by_side(jobs, *where, count):
        if is_done:
            yield job
        else:
            busy.append(job)
    if busy:
        jobs_of_others = "one job" if len(busy) == 1 else f"{len(busy)} jobs"
        warnings.warn(f"another process trains runs of {jobs_of_others}, which are waited for.", stacklevel=2)
    for job in busy:
        run_job_when_free(job, *where)
        yield job


def _one_by_one(jobs: Sequence[Job], runs: Path, device: str, checkpoint_seconds: float) -> Iterator[tuple[Job, bool]]:
    """Each job, and whether it could be done: not where another process trains a run of it."""
    for job in jobs:
        try:
            perform(job, runs, device, checkpoint_seconds)
        except BusyError:
            yield job, False
        else:
            yield job, True


def _side_by_side(
    jobs: Sequence[Job], runs: Path, device: str, checkpoint_seconds: float, count: int
) -> Iterator[tuple[Job, bool]]:
    """The same by so many processes, in the order in which jobs end."""
    # Spawned, not forked: threads of torch do not survive a fork.
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    with reader, writer, ProcessPoolExecutor(count, context, _begin, (reader,)) as pool:
        # Ctrl-C meanwhile waits for the parent; processes begin without it, and never have it.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            waiting = {pool.submit(_perform, job, runs, device, checkpoint_seconds): job for job in jobs}
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        try:
            yield from _as_done(waiting)
        except BaseException:
            writer.close()
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _check_not_repeated() -> None:
    """A new process reads the script that it was started from once more, which must not ask for the sweep again."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RunError(
            "a script that asks for a sweep must do so under `if __name__ == '__main__':`, for processes that train "
            "read it, too. Add that line, or ask for workers=1."
        )


def _begin(parent: Connection) -> None:
    """What a new process does first: it waits, beside its work, for the end of the pipe from its parent.

    The pipe ends when the parent stops, and when it was killed: its processes would train on and hold their locks.
    """
    # As the parent's own: the source line of a warning in another process tells nobody anything.
    warnings.showwarning = lambda message, *where, **more: print(f"warning: {message}", file=sys.stderr)
    # Ctrl-C reaches every process of a terminal at once; the parent passes it on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        wait_for([parent])
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(STOPPING)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _perform(job: Job, runs: Path, device: str, checkpoint_seconds: float) -> None:
    """Perform a job; stopped, its checkpoint is written, and the process ends before it takes another job."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        perform(job, runs, device, checkpoint_seconds)
    except KeyboardInterrupt:
        os._exit(1)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _stop(*_: object) -> None:
    # Once is enough: a second signal would stop the writing of the checkpoint.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def _workers(workers: int | None, jobs: int, device: str) -> int:
    if workers is not None:
        return min(whole_number("workers", workers, 1), max(jobs, 1))
    if torch.device(device).type != "cpu":
        return 1
    return max(1, min(len(os.sched_getaffinity(0)), jobs))


def _as_done(waiting: dict[Future[None], Job]) -> Iterator[tuple[Job, bool]]:
    open_ones = set(waiting)
    while open_ones:
        done, open_ones = wait(open_ones, return_when=FIRST_COMPLETED)
        for one in done:
            try:
                one.result()
            except BrokenProcessPool as error:
                raise RunError(
                    "a process that trained was killed, perhaps for want of memory. Ask for the same sweep again: what "
                    "was trained is kept. Fewer workers need less memory. (A script that asks for a sweep must do so "
                    "under `if __name__ == '__main__':`.)"
                ) from error
            except BusyError:
                yield waiting[one], False
            else:
                yield waiting[one], True
