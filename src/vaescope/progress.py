"""Progress of long computations: a bar on a terminal, nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from vaescope.terminal import print_line, printable

Step = TypeVar("Step")


class ProgressReport(Protocol):
    """A function that is called with the number of finished steps and, optionally, a few words for the user."""

    def __call__(self, done: int, words: str = "") -> None: ...


def announce(words: str) -> None:
    """Print what happens next to stderr, on a terminal only."""
    if sys.stderr.isatty():
        print_line(words, sys.stderr)


@contextmanager
def progress_bar(title: str, total: int | None, show: bool | None = None) -> Iterator[ProgressReport]:
    """A progress bar on stderr.

    Args:
        title: The text in front of the bar.
        total: The number of steps; None if unknown.
        show: Whether to show the bar. Default: on a terminal only.
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda done, words="": None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", style="bold", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[words]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(printable(title), total=total, words="")

        def report(done: int, words: str = "") -> None:
            bar.update(task, completed=done, words=printable(words))

        yield report


def track(steps: Iterable[Step], title: str, total: int, *, long: bool) -> Iterator[Step]:
    """Iterate over `steps`, with a progress bar if `long`."""
    with progress_bar(title, total, None if long else False) as report:
        for done, step in enumerate(steps, 1):
            yield step
            report(done)
