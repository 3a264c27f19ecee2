"""Runs many cases in separate processes: a crash or hang counts as a fault of its case, and the others continue."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from cases import CRASH, HANG, Case, Outcome, limits, run
from corpus import memory
from kinds import KINDS

GRACE_SECONDS = 20.0  # beyond the limit of a case: code that ignores signals is killed
START_SECONDS = 120.0  # to load everything and to write a store
CONTEXT = multiprocessing.get_context("spawn")


def spread(kinds: Sequence[str], count: int, seed: int) -> list[Case]:
    """`count` cases, in rounds over the kinds."""
    cases = (Case(kind, turn) for turn in itertools.count(seed) for kind in kinds if turn % KINDS[kind].every == 0)
    return list(itertools.islice(cases, count))


@dataclass
class Worker:
    """A process that runs cases, and its current case."""

    process: SpawnProcess
    connection: Connection
    case: Case | None = None
    deadline: float = field(default_factory=lambda: time.monotonic() + START_SECONDS)

    @classmethod
    def start(cls) -> Worker:
        ours, theirs = CONTEXT.Pipe()
        process = CONTEXT.Process(target=_work, args=(theirs,))
        process.start()
        theirs.close()
        return cls(process, ours)

    def give(self, case: Case | None) -> None:
        """Send it the next case; None ends the process."""
        self.case = case
        if case is not None:
            self.deadline = time.monotonic() + KINDS[case.kind].seconds + GRACE_SECONDS
        self.connection.send(case)

    def answer(self) -> Outcome | None:
        """The outcome of its case, even if the process died; None if it has just started."""
        try:
            outcome: Outcome | None = self.connection.recv()
            return outcome
        except (EOFError, ConnectionResetError):
            self.process.join()
            code = self.process.exitcode or 0
            words = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            if self.case is None:
                raise SystemExit(f"a worker ended before its first case: {words}") from None
            return Outcome(self.case, False, CRASH, words, f"{words} ({self.case.kind})")

    def stop(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def attack(cases: Iterable[Case], workers: int, seconds: float) -> Iterator[Outcome]:
    """Run cases until none is left or the time is over."""
    waiting, end = iter(cases), time.monotonic() + seconds
    running = [Worker.start() for _ in range(workers)]
    try:
        while running:
            ready = wait([worker.connection for worker in running], timeout=1.0)
            for worker in running.copy():
                late = time.monotonic() > worker.deadline
                if worker.connection not in ready and not late:
                    continue
                outcome = worker.answer() if worker.connection in ready else _late(worker)
                if outcome is not None:
                    yield outcome
                if late or not worker.process.is_alive():
                    worker.stop()
                    running[running.index(worker)] = Worker.start()
                    continue
                case = next(waiting, None) if time.monotonic() < end else None
                worker.give(case)
                if case is None:
                    running.remove(worker)
                    worker.process.join()
    finally:
        for worker in running:
            worker.stop()


def _late(worker: Worker) -> Outcome | None:
    """The outcome of a case that had to be killed."""
    if worker.case is None:
        raise SystemExit(f"a worker did not start within {START_SECONDS:g} s")
    words = f"over {KINDS[worker.case.kind].seconds:g} s, and no signal stopped it"
    return Outcome(worker.case, False, HANG, words, f"{words} ({worker.case.kind})")


def _work(connection: Connection) -> None:
    """Report the start, then run one case after another, each in its own folder."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with tempfile.TemporaryDirectory(dir=memory()) as folder:
        with Path(os.devnull).open("w") as silence:
            os.dup2(silence.fileno(), 1)
            os.dup2(silence.fileno(), 2)
        os.chdir(folder)
        # The parent has ended: there are no more cases.
        with limits(), suppress(EOFError, ConnectionError):
            connection.send(None)
            while (case := connection.recv()) is not None:
                connection.send(run(case))
        os.chdir("/")


@dataclass(frozen=True)
class Report:
    """The outcomes of all cases."""

    outcomes: tuple[Outcome, ...]

    @property
    def faults(self) -> list[Outcome]:
        """The outcomes that are faults."""
        return [outcome for outcome in self.outcomes if outcome.fault is not None]

    def rows(self) -> list[dict[str, object]]:
        """One row for each kind: cases, how many were read or refused, a count of each fault, the longest time."""
        found = []
        for kind in dict.fromkeys(outcome.case.kind for outcome in self.outcomes):
            own = [outcome for outcome in self.outcomes if outcome.case.kind == kind]
            ends = Counter(outcome.fault or ("refused" if outcome.refused else "accepted") for outcome in own)
            longest = round(max(outcome.seconds for outcome in own), 2)
            found.append({"kind": kind, "cases": len(own), **dict(sorted(ends.items())), "longest_seconds": longest})
        return found

    def distinct(self) -> list[dict[str, object]]:
        """One row for each fault, equal ones counted, with a case that reproduces it."""
        places = Counter((outcome.fault, outcome.place) for outcome in self.faults)
        first = {(outcome.fault, outcome.place): outcome for outcome in reversed(self.faults)}
        return [
            {"fault": key[0], "times": times, "where": key[1], "case": str(first[key].case), "words": first[key].words}
            for key, times in places.most_common()
        ]
