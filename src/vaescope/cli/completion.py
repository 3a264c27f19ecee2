"""What the shell completes: ids of runs, names of data sets and of parts. Nothing here loads torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import typer

from vaescope.cli.variants import variants

Completion = list[tuple[str, str]]  # values, and the help that some shells show next to them
Completer = Callable[[str], Completion]


def of_kind(kind: str) -> Completer:
    """Completes the names of a kind of part, of data sets or of metrics."""

    def complete(incomplete: str) -> Completion:
        return _starting(incomplete, ((variant.name, variant.summary) for variant in variants(kind)))

    return complete


def of_names(*names: str) -> Completer:
    """Completes one of these names."""

    def complete(incomplete: str) -> Completion:
        return _starting(incomplete, ((name, "") for name in names))

    return complete


def several(complete_one: Completer) -> Completer:
    """Completes the last of several values separated by commas."""

    def complete(incomplete: str) -> Completion:
        before, comma, last = incomplete.rpartition(",")
        return [(f"{before}{comma}{value}", summary) for value, summary in complete_one(last)]

    return complete


def run_ids(context: typer.Context, incomplete: str) -> list[str]:
    """Completes ids of runs in the folder that --runs names."""
    from vaescope.runs.rows import run_folders

    folder = next((value for name in ("runs", "folder") if isinstance(value := context.params.get(name), str)), "runs")
    given = {one for value in context.params.values() if isinstance(value, list | tuple) for one in value}
    names = (path.name for path in run_folders(Path(folder)))
    return [name for name in names if name.startswith(incomplete) and name not in given]


def _starting(incomplete: str, known: Iterable[tuple[str, str]]) -> Completion:
    return [(name, summary) for name, summary in known if name.startswith(incomplete)]
