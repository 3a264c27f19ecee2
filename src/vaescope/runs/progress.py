"""A progress bar on a terminal, silence in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Report(Protocol):
    """Called with the steps done and a few words about where training stands."""

    def __call__(self, step: int, words: str) -> None: ...


@contextmanager
def progress_bar(title: str, steps: int, show: bool | None) -> Iterator[Report]:
    """A bar over `steps`; shown on a terminal, or as `show` says."""
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda step, words: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[words]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=steps, words="")
        yield lambda step, words: bar.update(task, completed=step, words=words)
