"""How far the runs of a sweep have trained, read from their histories while other processes write them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from vaescope.progress import progress_bar
from vaescope.runs.folders import ensembles_in
from vaescope.runs.journal import Journal
from vaescope.sweeps.jobs import Job

WATCH_SECONDS = 2.0  # between reads of the histories


@contextmanager
def shown_progress(jobs: Sequence[Job], done: set[int], runs: Path, show: bool | None) -> Iterator[None]:
    """Show the steps that all jobs have trained; `done` are the numbers of finished jobs, to which the block adds."""
    total = sum(job.steps * len(job.ids) for job in jobs)
    runs_total = sum(len(job.ids) for job in jobs)
    ended = Event()
    with progress_bar("sweep", total, show, unit="steps") as report:

        def tell() -> None:
            finished = [job for job in jobs if job.number in done]
            count = sum(len(job.ids) for job in finished)
            steps = sum(job.steps * len(job.ids) for job in finished)
            # A run may be deleted while it is read; the next reading shows the truth.
            with suppress(OSError):
                steps += trained_steps([job for job in jobs if job.number not in done], runs)
            report(steps, f"{count} of {runs_total} runs done")

        def watch() -> None:
            while not ended.wait(WATCH_SECONDS):
                tell()

        tell()
        watcher = Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def trained_steps(jobs: Sequence[Job], runs: Path) -> int:
    """The steps that the runs of unfinished jobs have trained so far, alone or in the folder of their ensemble."""
    ensembles = {identity: folder for folder, ids in ensembles_in(runs) for identity in ids}
    return sum(
        min(job.steps, Journal(ensembles.get(identity, runs / identity)).last_step())
        for job in jobs
        for identity in job.ids
    )
