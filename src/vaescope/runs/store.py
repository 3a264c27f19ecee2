"""A folder of runs: find one by its id, list all, query them with SQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vaescope.errors import RunError
from vaescope.runs.columns import Row
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
        """The folder of the run with this id, whether or not it exists."""
        return self.folder / identity

    def runs(self) -> Iterator[Run]:
        """Every run, by id; a damaged run.json raises an error that names it."""
        for path in self._paths():
            yield Run.open(path)

    def find(self, identity: str) -> Run:
        """The run in a folder, or the one run whose id starts with the text."""
        if identity and (Path(identity) / RUN_FILE).is_file():
            return Run.open(identity)
        found = [path for path in self._paths() if identity and path.name.startswith(identity)]
        if len(found) != 1:
            names = ", ".join(path.name for path in found)
            what = f"{len(found)} runs in {self.folder} start" if found else f"No run in {self.folder} starts"
            raise RunError(
                f"{what} with {identity!r}{f': {names}' if names else ''}. See `vaescope runs` for the list."
            )
        return Run.open(found[0])

    def _paths(self) -> list[Path]:
        return run_folders(self.folder)

    def query(self, sql: str) -> tuple[list[str], list[tuple[object, ...]]]:
        """Column names and rows of a SQL query over the tables `runs` and `history`."""
        return query(self.folder, sql)


def summary(run: Run) -> Row:
    """One flat row about a run: all settings and the last values of its history."""
    return summary_row(run.record, run.history)
