"""Progress of long work: a bar on a terminal, silence in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

Step = TypeVar("Step")


class Report(Protocol):
    """Called with how much is done and, where it helps, a few words about where the work stands."""

    def __call__(self, done: int, words: str = "") -> None: ...


def saying(words: str) -> None:
    """Tell people what comes next, on a terminal only."""
    if sys.stderr.isatty():
        print(words, file=sys.stderr)


@contextmanager
def progress_bar(title: str, total: int | None, show: bool | None = None) -> Iterator[Report]:
    """A bar on stderr over `total` steps (None when unknown); shown on a terminal, or as `show` says."""
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
        task = bar.add_task(title, total=total, words="")

        def report(done: int, words: str = "") -> None:
            bar.update(task, completed=done, words=words)

        yield report


def follow(steps: Iterable[Step], title: str, total: int, *, long: bool) -> Iterator[Step]:
    """The steps, with a progress bar when they take long."""
    with progress_bar(title, total, None if long else False) as report:
        for done, step in enumerate(steps, 1):
            yield step
            report(done)
