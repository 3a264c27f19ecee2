"""One case of the attack: a mutated file, limits on time and memory, and the fault that it shows, if any."""

from __future__ import annotations

import resource
import signal
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from types import FrameType

import pytest
from kinds import KINDS

from vaescope.errors import VaescopeError
from vaescope.runs import rows

MAX_EXTRA_BYTES = 4 * 2**30  # of address space, on top of what the process has at the start
TRACEBACK, HANG, MEMORY, CHANGE, CRASH = "traceback", "hang", "memory", "silent change", "crash"


class Hang(BaseException):
    """A case took too long; handlers of `Exception` do not catch it."""


@dataclass(frozen=True)
class Case:
    """A kind and a seed, from which everything about the case follows."""

    kind: str
    seed: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.seed}"

    @classmethod
    def parse(cls, text: str) -> Case:
        """The inverse of `str`."""
        kind, _, seed = text.rpartition(":")
        if kind not in KINDS or not seed.isdecimal():
            raise SystemExit(f"a case is KIND:SEED, with a kind among {', '.join(KINDS)}; got {text!r}")
        return cls(kind, int(seed))

    def content(self) -> tuple[bytes, Random]:
        """The mutated file, and the generator that makes all other choices."""
        random = Random(str(self))
        return KINDS[self.kind].content(random), random


@dataclass(frozen=True)
class Outcome:
    """What a case led to: the file was read, refused in a sentence, or there is a fault.

    Attributes:
        fault: What went wrong, in a word; None if nothing did.
        words: The error or the change.
        place: Where it was raised; equal faults have one place.
        seconds: How long it took.
    """

    case: Case
    refused: bool = False
    fault: str | None = None
    words: str = ""
    place: str = ""
    seconds: float = 0.0


def run(case: Case, *, show: bool = False) -> Outcome:
    """Run a case in the current folder; `show` prints the traceback of an error."""
    start = time.monotonic()
    outcome = _run(case, show)
    return replace(outcome, seconds=time.monotonic() - start)


def _run(case: Case, show: bool) -> Outcome:
    content, random = case.content()
    try:
        with time_limit(KINDS[case.kind].seconds):
            change = KINDS[case.kind].check(content, random)
    except VaescopeError as error:
        if show:
            print(error)
        return Outcome(case, refused=True)
    except (Hang, MemoryError, Exception) as error:
        if show:
            traceback.print_exception(error)
        fault = HANG if isinstance(error, Hang) else MEMORY if isinstance(error, MemoryError) else TRACEBACK
        return Outcome(case, False, fault, f"{type(error).__name__}: {str(error)[:300]}", _place(error))
    return Outcome(case) if change is None else Outcome(case, False, CHANGE, change, change.partition(" (")[0])


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `Hang` inside the block after some seconds; an earlier timer is restored afterwards."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang(f"over {seconds:g} s")

    handler = signal.signal(signal.SIGALRM, stop)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, left, interval)


@contextmanager
def limits(extra: int = MAX_EXTRA_BYTES) -> Iterator[None]:
    """Limit memory to what the process has now plus `extra` bytes, where the system allows it.

    Damaged files are not read again after a pause: nothing else writes here.
    """
    size = Path("/proc/self/statm")
    before = resource.getrlimit(resource.RLIMIT_AS)
    if size.exists():
        now = int(size.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + extra, before[1]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "PAUSE_SECONDS", 0.0)
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)


def _place(error: BaseException) -> str:
    """The class of the error and the innermost line of the library in its traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/vaescope/" in frame.filename] or frames
    where = own[-1]
    return f"{type(error).__name__} in {Path(where.filename).name}, {where.name}"
