"""Find a run: in a folder of runs by its id, or as what a command is about, with the data that it was trained on."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vaescope.checks import whole_number
from vaescope.codes.files import CODE_FILE_SUFFIXES
from vaescope.data import DataLike, Dataset, open_dataset
from vaescope.errors import ConfigurationError, DamagedRunWarning, DataError, RunError, VaescopeError
from vaescope.runs.queries import TIMEOUT_SECONDS, query
from vaescope.runs.record import COMPLETE
from vaescope.runs.rows import Row, may_hold_run, run_folders, summary_row
from vaescope.runs.run import Run

DEFAULT_FOLDER = "runs"


@dataclass(frozen=True)
class Store:
    """All runs below one folder."""

    folder: Path = Path(DEFAULT_FOLDER)

    def path(self, identity: str) -> Path:
        """The folder of the run with this id, whether or not it exists."""
        return self.folder / identity

    def status(self, identity: str) -> str | None:
        """The status of the run with this id; None if there is no run."""
        path = self.path(identity)
        return Run.open(path).status if may_hold_run(path) else None

    def is_complete(self, identity: str) -> bool:
        """Whether the run with this id is trained to the end."""
        return self.status(identity) == COMPLETE and Run(self.path(identity)).has_model

    def runs(self) -> Iterator[Run]:
        """Every run, by id; one that cannot be opened is left out, with a `DamagedRunWarning` that names it."""
        for path in run_folders(self.folder):
            try:
                run = Run.open(path)
            except RunError as error:
                warnings.warn(f"{error} The run is left out.", DamagedRunWarning, stacklevel=2)
            else:
                yield run

    def find(self, identity: str) -> Run:
        """The run in a folder, or the one run whose id starts with the text."""
        return Run.open(self.locate(identity))

    def locate(self, identity: str) -> Path:
        """The folder of the run that `find` opens."""
        if identity and may_hold_run(identity):
            return Path(identity)
        found = [path for path in run_folders(self.folder) if identity and path.name.startswith(identity)]
        if len(found) != 1:
            names = ", ".join(path.name for path in found)
            what = f"{len(found)} runs in {self.folder} start" if found else f"No run in {self.folder} starts"
            raise RunError(
                f"{what} with {identity!r}{f': {names}' if names else ''}. See `vaescope runs` for the list."
            )
        return found[0]

    def query(self, sql: str, timeout: float = TIMEOUT_SECONDS) -> tuple[list[str], list[tuple[object, ...]]]:
        """Column names and rows of a SQL query over the tables `runs` and `history`, within `timeout` seconds."""
        return query(self.folder, sql, timeout)


def summary(run: Run) -> Row:
    """One flat row about a run: all settings and the last values of its history."""
    return summary_row(run.record, run.history)


def subject_name(subject: object) -> str:
    """A name for codes that are not those of a run: their file, their function, or just 'codes'."""
    if isinstance(subject, str | Path):
        return str(subject)
    return getattr(subject, "__name__", type(subject).__name__) if callable(subject) else "codes"


def run_of(subject: object, runs: str | Path | None) -> Run | None:
    """The run that a folder or the beginning of an id stands for; None for other subjects."""
    if isinstance(subject, Run):
        return subject
    if (
        not isinstance(subject, str | Path)
        or os.path.isfile(subject)
        or Path(subject).suffix.lower() in CODE_FILE_SUFFIXES
    ):
        return None
    return Store(Path(DEFAULT_FOLDER if runs is None else runs)).find(str(subject))


def named_run(run: Run | str | Path, runs: str | Path | None) -> Run:
    """The run itself, the one in a folder, or the one whose id begins so; anything else is an error."""
    found = run_of(run, runs)
    if found is None:
        raise ConfigurationError(f"run must be a run, its folder, or the beginning of its id, got {run!r}.")
    return found


def data_of(run: Run, data: DataLike | None = None) -> Dataset:
    """The data that a run was trained on, or other data with items of the same shape."""
    if data is not None:
        opened, shape = open_dataset(data), tuple(run.configuration.data["shape"])
        if tuple(opened.shape) != shape:
            raise DataError(
                f"{opened.name} must have items of shape {shape}, as the data that run {run.id} was trained on, got "
                f"{tuple(opened.shape)}."
            )
        return opened
    source, name = run.provenance.source, run.configuration.data["name"]
    if source is None:
        raise DataError(f"run {run.id} was trained on data in memory ({name}), which cannot be opened. Pass data.")
    try:
        opened = open_dataset(source)
    except VaescopeError as error:
        raise DataError(f"the data of run {run.id} cannot be opened: {error} Or pass data.") from error
    if opened.fingerprint != run.configuration.data["fingerprint"]:
        raise DataError(f"{source} has changed since run {run.id} was trained on it. Pass data to use it anyway.")
    return opened


def sample_items(data: Dataset, items: int, seed: int) -> Dataset:
    """At most `items` items, drawn by the seed."""
    return data.draw(whole_number("items", items, 2), seed)
