"""Rows recorded by other processes, read from the histories of their runs in the shared folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vaescope.runs.folders import ensembles_in
from vaescope.runs.journal import read_checkpoint
from vaescope.runs.record import COMPLETE, FAILED, HISTORY_FILE, Table
from vaescope.runs.run import Run
from vaescope.runs.sealed import naming
from vaescope.runs.store import Store
from vaescope.sweeps.jobs import EngineOptions, Job

POLL_SECONDS = 0.2  # seconds between reads of the histories


@dataclass(frozen=True)
class _Place:
    """How far a file was read; a file that was rewound is a new one."""

    inode: int
    offset: int


class HistoryTail:
    """Sends the rows of jobs that run in other processes to a follower.

    Rows up to the checkpoint that a run resumes from were sent by an earlier call.
    """

    def __init__(self, jobs: Iterable[Job], options: EngineOptions) -> None:
        self.runs, self.follower = options.runs, options.follower
        store, named = Store(self.runs), {one for job in jobs for one in job.ids} if self.follower.active else set()
        self._waiting = {identity for identity in named if store.status(identity) not in (COMPLETE, FAILED)}
        self._places: dict[Path, _Place] = {}
        self._first: dict[str, int] = {}
        for folder, ids in self._histories():
            step, _ = read_checkpoint(folder) or (0, "")
            self._first |= dict.fromkeys(ids, step)

    @property
    def seconds(self) -> float | None:
        """Seconds that an engine may wait between calls of `poll`; None without a follower."""
        return POLL_SECONDS if self.follower.active else None

    def poll(self) -> None:
        """Send the rows that were recorded since the last call."""
        for folder, ids in self._histories():
            self._read(folder, ids)

    def done(self, job: Job) -> None:
        """Send the remaining rows of a job that is done, or that another process runs, and end its runs."""
        for identity in self._waiting.intersection(job.ids):
            self._read(self.runs / identity, [identity])
            self.follower.end(identity)
        self._waiting.difference_update(job.ids)

    def _histories(self) -> Iterator[tuple[Path, Sequence[str]]]:
        """The folders that may hold histories of jobs that are not done, with the ids of their members."""
        if not self._waiting:
            return
        yield from ((folder, ids) for folder, ids in ensembles_in(self.runs) if self._waiting.intersection(ids))
        try:
            names = os.listdir(self.runs)
        except FileNotFoundError:
            return
        yield from ((self.runs / name, [name]) for name in sorted(self._waiting.intersection(names)))

    def _read(self, folder: Path, ids: Sequence[str]) -> None:
        for row in self._new_rows(folder / HISTORY_FILE):
            identity = ids[row.pop("member", 0)]
            if identity not in self._waiting:
                continue
            if not self.follower.follows(identity):
                self.follower.begin(Run.open(self.runs / identity), self._first.get(identity, 0))
            self.follower.send(identity, row.pop("step"), row.pop("split"), row)

    def _new_rows(self, file: Path) -> list[Table]:
        """The complete lines that were added since the file was last read; all of them if it was rewound."""
        try:
            with file.open("rb") as opened:
                inode = os.fstat(opened.fileno()).st_ino
                place = self._places.get(file, _Place(inode, 0))
                start = place.offset if place.inode == inode else 0
                opened.seek(max(0, start - 1))
                if start and opened.read(1) != b"\n":
                    start = 0
                    opened.seek(0)
                content = opened.read()
        except FileNotFoundError:  # nothing was recorded yet, or its ensemble is finished
            return []
        end = content.rfind(b"\n") + 1
        self._places[file] = _Place(inode, start + end)
        with naming(file):
            return [json.loads(line) for line in content[:end].splitlines()]


@contextmanager
def tailed(jobs: Iterable[Job], options: EngineOptions) -> Iterator[HistoryTail]:
    """Follow jobs that run in other processes inside this block, which ends after them."""
    tail = HistoryTail(jobs, options)
    with tail.follower.closing():
        try:
            yield tail
        finally:
            # Stopped processes have recorded rows in the meantime.
            tail.poll()
