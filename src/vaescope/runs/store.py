"""A folder of runs: find one by its id, list all, ask questions in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vaescope.errors import RunError
from vaescope.runs.queries import query
from vaescope.runs.record import RUN_FILE
from vaescope.runs.rows import run_folders, summary_row
from vaescope.runs.run import Run

DEFAULT_FOLDER = "runs"


@dataclass(frozen=True)
class Store:
    """All runs below one folder."""

    folder: Path = Path(DEFAULT_FOLDER)

    def path(self, identity: str) -> Path:
        """Where the run with this id lies or will lie."""
        return self.folder / identity

    def runs(self) -> Iterator[Run]:
        """Every run, by id; a folder whose run.json is damaged raises an error that names it."""
        for path in self._paths():
            yield Run.open(path)

    def find(self, identity: str) -> Run:
        """The run whose folder this is, or whose id begins so."""
        if identity and (Path(identity) / RUN_FILE).is_file():
            return Run.open(identity)
        found = [path for path in self._paths() if identity and path.name.startswith(identity)]
        if len(found) != 1:
            what = "none does" if not found else f"{len(found)} do: {', '.join(path.name for path in found)}"
            raise RunError(
                f"{identity!r} must be a run's folder or the beginning of one run's id in {self.folder}, {what}. "
                "See `vaescope runs` for the list."
            )
        return Run.open(found[0])

    def _paths(self) -> list[Path]:
        return run_folders(self.folder)

    def query(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Column names and rows of a SQL question over the tables `runs` and `history`."""
        return query(self.folder, sql)


def summary(run: Run) -> dict[str, Any]:
    """One flat row about a run: all of its settings and the last values of its history."""
    return summary_row(run.record, run.history)
