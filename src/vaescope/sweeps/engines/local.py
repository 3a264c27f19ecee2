"""Jobs on this machine: one after another on a GPU, one process per core on a CPU."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from queue import Empty, SimpleQueue

import torch

from vaescope.checks import whole_number
from vaescope.errors import BusyError, ConfigurationError, RunError
from vaescope.sweeps.jobs import EngineOptions, Job, run_job, run_job_when_free
from vaescope.sweeps.tail import tailed
from vaescope.terminal import print_warning

STOP_SECONDS = 30.0  # for a process to write its checkpoint


def run_locally(jobs: Sequence[Job], options: EngineOptions) -> Iterator[Job]:
    """Yield each job when it is done; a job with a run that another process trains waits for that process."""
    if options.address is not None:
        raise ConfigurationError(f"address is an option of the engine 'ray', got {options.address!r} with 'local'.")
    _check_main_guard()
    count = _worker_count(options, len(jobs))
    done = ((job, _try_job(job, options)) for job in jobs) if count == 1 else _run_in_processes(jobs, options, count)
    busy = []
    for job, is_done in done:
        if is_done:
            yield job
        else:
            busy.append(job)
    if busy:
        warnings.warn(f"waiting for another process that trains runs of {len(busy)} of the jobs.", stacklevel=2)
    for job in busy:
        run_job_when_free(job, options)
        yield job


def _try_job(job: Job, options: EngineOptions) -> bool:
    """Run a job; False if another process trains a run of it."""
    try:
        run_job(job, options)
    except BusyError:
        return False
    return True


def _run_in_processes(jobs: Sequence[Job], options: EngineOptions, count: int) -> Iterator[tuple[Job, bool]]:
    """Each job when its process returns it, and whether it was completed."""
    # Spawned, not forked: threads of torch do not survive a fork.
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    pooled = ProcessPoolExecutor(count, context, _start_worker, (reader,))
    with tailed(jobs, options) as tail, reader, writer, pooled as pool:
        # Processes inherit the blocked signal: Ctrl-C reaches the parent only.
        with _interrupts_blocked():
            waiting = {pool.submit(_run_in_worker, job, options.elsewhere()): job for job in jobs}
        finished: SimpleQueue[Future[bool]] = SimpleQueue()
        for future in waiting:
            future.add_done_callback(finished.put)
        try:
            while waiting:
                tail.poll()
                try:
                    future = finished.get(timeout=tail.seconds)
                except Empty:
                    continue
                job, is_done = waiting.pop(future), future.result()
                tail.done(job)
                yield job, is_done
        except BaseException as error:
            writer.close()
            pool.shutdown(wait=True, cancel_futures=True)
            if not isinstance(error, BrokenProcessPool):
                raise
            raise RunError(
                "a process that was training was killed, perhaps for lack of memory. Run the same sweep again, "
                "with fewer workers if memory is short: finished runs are kept. (A script must run a sweep under "
                "`if __name__ == '__main__':`.)"
            ) from error


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C inside the block; on Windows, which cannot, new processes ignore it once they have started."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _check_main_guard() -> None:
    """A spawned process imports the script that started it, which must not start the sweep again."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RunError(
            "a script that runs a sweep must do so under `if __name__ == '__main__':`, because the processes that "
            "train import the script. Add that line, or pass workers=1."
        )


def _start_worker(parent: Connection) -> None:
    """Prepare a new process: a thread waits for the end of the pipe from the parent.

    The pipe ends when the parent stops or is killed; without it, its processes would keep training and hold locks.
    """
    warnings.showwarning = print_warning
    # Ctrl-C reaches every process of a terminal; the parent forwards it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        wait_for([parent])
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(STOP_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _run_in_worker(job: Job, options: EngineOptions) -> bool:
    """Run a job; if it is interrupted, write its checkpoint and end the process before the next job."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        return _try_job(job, options)
    except KeyboardInterrupt:
        os._exit(1)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _stop(*_: object) -> None:
    # A second signal would interrupt the writing of the checkpoint.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def _worker_count(options: EngineOptions, jobs: int) -> int:
    if options.workers is not None:
        return min(whole_number("workers", options.workers, 1), max(jobs, 1))
    return 1 if torch.device(options.device).type != "cpu" else max(1, min(available_cores(), jobs))


def available_cores() -> int:
    """The cores that this process may use; all of them if the system does not report it."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
