"""Progress of long computations: a bar on a terminal and in a notebook, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol, TypeVar

from vaescope.notebook_progress import NotebookBar, in_notebook
from vaescope.terminal import print_line, printable

if TYPE_CHECKING:
    from rich.progress import Progress

Step = TypeVar("Step")

LINES = 10  # in a log, at equal shares of the steps
LINE_SECONDS = 30.0  # between two lines, if the steps take longer
MIN_LINE_SECONDS = 10.0  # before the first line and between two lines: quick work leaves no trace in a log
BAR_WIDTH = 12  # characters

_LOGGED: ContextVar[bool] = ContextVar("logged", default=True)
# The display of the outer bar: bars inside of it become further lines of the same display.
_DISPLAY: ContextVar[Progress | None] = ContextVar("display", default=None)


class ProgressReport(Protocol):
    """A function that is called with the number of finished steps.

    Optionally it takes a few words for the user, and the total of the steps, where that changes.
    """

    def __call__(self, done: int, words: str = "", total: int | None = None) -> None: ...


@contextmanager
def no_log_lines() -> Iterator[None]:
    """Inside the block, progress is shown on a terminal only: the output is for a program."""
    token = _LOGGED.set(False)
    try:
        yield
    finally:
        _LOGGED.reset(token)


def announce(words: str) -> None:
    """Print a status message to stderr."""
    if sys.stderr.isatty() or _LOGGED.get():
        print_line(words, sys.stderr)


@contextmanager
def progress_bar(
    title: str, total: int | None, show: bool | None = None, *, unit: str = ""
) -> Iterator[ProgressReport]:
    """Progress on stderr: a bar on a terminal, which disappears at the end, a bar in a notebook, lines in a log.

    Args:
        title: What is done, and with what data, as in 'encoding digits'.
        total: The number of steps; None if unknown.
        show: Whether to show progress. Default: True.
        unit: What the steps are, in the plural.
    """
    if show is False:
        yield lambda done, words="", total=None: None
    elif in_notebook():
        with _notebook_bar(title, total, unit) as report:
            yield report
    elif sys.stderr.isatty():
        with _bar(printable(title), total, unit) as report:
            yield report
    elif _LOGGED.get():
        yield LogLines(title, total, unit)
    else:
        yield lambda done, words="", total=None: None


@contextmanager
def _notebook_bar(title: str, total: int | None, unit: str) -> Iterator[ProgressReport]:
    bar = NotebookBar(title, total, unit)
    try:
        yield bar
    except BaseException:
        bar.finish(stopped=True)
        raise
    bar.finish(stopped=False)


def track(steps: Iterable[Step], title: str, total: int, *, long: bool, unit: str = "") -> Iterator[Step]:
    """Iterate over `steps`, with progress if `long`."""
    with progress_bar(title, total, None if long else False, unit=unit) as report:
        for done, step in enumerate(steps, 1):
            yield step
            report(done)


class LogLines:
    """Lines on stderr: one every 10% of the steps or 30 s, whichever is first, but at most one every 10 s."""

    def __init__(self, title: str, total: int | None, unit: str = "") -> None:
        self.title, self.total, self.unit = title, total, unit
        self._printed = time.monotonic()
        self._share: int | None = None  # the tenths that were done at the last line
        self._first: tuple[int, float] | None = None  # steps done at the first report, and when

    def __call__(self, done: int, words: str = "", total: int | None = None) -> None:
        now = time.monotonic()
        if total is not None and total != self.total:
            self.total, self._share, self._first = total, None, None
        if self._first is None:
            self._first = (done, now)
        share = LINES * done // self.total if self.total else 0
        if self._share is None:
            self._share = share
        waited = now - self._printed
        if waited >= LINE_SECONDS or (waited >= MIN_LINE_SECONDS and share > self._share):
            self._printed, self._share = now, share
            parts = [self._count(done), words, self._left(done, now)]
            print_line(f"{self.title}: {', '.join(part for part in parts if part)}", sys.stderr)

    def _count(self, done: int) -> str:
        if self.total is None:
            return f"{done:,} {self.unit}" if self.unit else ""
        return f"{done:,} of {self.total:,}{self.unit and f' {self.unit}'} ({done / max(1, self.total):.0%})"

    def _left(self, done: int, now: float) -> str:
        """The remaining time, from the speed since the first report."""
        assert self._first is not None
        before, began = self._first
        if self.total is None or not before < done < self.total:
            return ""
        return f"about {duration((now - began) * (self.total - done) / (done - before))} left"


def duration(seconds: float) -> str:
    """A time with a unit: '40 s', '3 min', '2.5 h'."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


@contextmanager
def _bar(title: str, total: int | None, unit: str) -> Iterator[ProgressReport]:
    """A line of the display of the outer bar, or of a display of its own."""
    outer, whole = _DISPLAY.get(), total
    display = _new_display() if outer is None else outer
    task = display.add_task(title, total=total, done="", words="")

    def report(done: int, words: str = "", total: int | None = None) -> None:
        nonlocal whole
        if total is not None and total != whole:
            whole = total
            display.reset(task, total=total)
        known = f"{done / max(1, whole):.0%}" if whole is not None else f"{done:,} {unit}" if unit else ""
        display.update(task, completed=done, done=known, words=printable(words))

    if outer is not None:
        try:
            yield report
        finally:
            display.remove_task(task)
        return
    _DISPLAY.set(display)
    try:
        with display:
            yield report
    finally:
        _DISPLAY.set(None)


def _new_display() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    return Progress(
        TextColumn("{task.description}", style="bold", markup=False, table_column=Column(no_wrap=True)),
        BarColumn(BAR_WIDTH),
        TextColumn("{task.fields[done]}", markup=False, table_column=Column(no_wrap=True)),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        TextColumn("{task.fields[words]}", markup=False, table_column=Column(no_wrap=True)),
        console=Console(stderr=True),
        transient=True,
    )
