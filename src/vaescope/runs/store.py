"""Find a run: in a folder of runs by its id, or as what a command is about, with the data that it was trained on."""

from __future__ import annotations

import math
import os
import shlex
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vaescope.checks import whole_number
from vaescope.codes.files import CODE_FILE_SUFFIXES
from vaescope.data import DataLike, Dataset, open_dataset, open_scaled
from vaescope.data.conditions import has_condition
from vaescope.data.items import check_shape
from vaescope.encoding import WrappedModel, model_name
from vaescope.encoding.scvi import is_scvi_model
from vaescope.errors import (
    ChangedFactoryWarning,
    ConfigurationError,
    DamagedRunWarning,
    DataError,
    RunError,
    VaescopeError,
    quoted,
)
from vaescope.models import FactoryArchitecture, FactoryFunction, LatentModel
from vaescope.models.factory import checked_factory
from vaescope.notebook import render_view
from vaescope.runs.deleting import Deletable, check_deletable, delete
from vaescope.runs.queries import TIMEOUT_SECONDS, query
from vaescope.runs.record import COMPLETE
from vaescope.runs.remembered import recall, remember
from vaescope.runs.rows import Row, may_hold_run, run_folders, summary_row
from vaescope.runs.run import Run

DEFAULT_FOLDER = "runs"
MAX_ITEMS = 10_000  # that are encoded by default
MAX_ROWS = 1_000_000  # of spatial codes, which have one for each position of an item


@dataclass(frozen=True, init=False)
class Store:
    """All runs below one folder."""

    folder: Path

    def __init__(self, folder: str | Path = DEFAULT_FOLDER) -> None:
        if not isinstance(folder, str | Path):
            raise ConfigurationError(f"the folder of runs must be a path, got {quoted(folder)}.")
        object.__setattr__(self, "folder", Path(folder))

    def _repr_html_(self) -> str | None:
        return render_view(self)

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

    def find(self, identity: str | Path) -> Run:
        """The run in a folder, or the one run whose id starts with the text."""
        return Run.open(self.locate(identity))

    def locate(self, identity: str | Path) -> Path:
        """The folder of the run that `find` opens."""
        identity = str(identity)
        if identity and may_hold_run(identity):
            return Path(identity)
        found = [path for path in run_folders(self.folder) if identity and path.name.startswith(identity)]
        if len(found) != 1:
            names = ", ".join(path.name for path in found)
            where = "" if self.folder == Path(DEFAULT_FOLDER) else f" --runs {shlex.quote(str(self.folder))}"
            list_runs = f"vaescope runs{where}"
            what = f"{len(found)} runs in {self.folder} start" if found else f"No run in {self.folder} starts"
            if not self.folder.is_dir():
                raise RunError(f"{what} with {identity!r}: the folder {self.folder} does not exist. Correct the path.")
            raise RunError(f"{what} with {identity!r}{f': {names}' if names else ''}. See `{list_runs}` for the list.")
        return found[0]

    def deletable(self, *identities: str | Path) -> list[Deletable]:
        """These runs with their disk use, if each can be deleted: a run of this store that no process is training."""
        return check_deletable([self.locate(identity) for identity in identities], self.folder)

    def delete(self, *identities: str | Path) -> int:
        """Delete the folders of runs with everything in them, without asking; returns the bytes that this frees."""
        found = self.deletable(*identities)
        delete(found)
        return sum(run.bytes for run in found)

    def query(self, sql: str, timeout: float = TIMEOUT_SECONDS) -> tuple[list[str], list[tuple[object, ...]]]:
        """Column names and rows of a SQL query over the tables `runs` and `history`, within `timeout` seconds."""
        return query(self.folder, sql, timeout)


def summary(run: Run) -> Row:
    """One flat row about a run: all settings and the last values of its history."""
    return summary_row(run.record, run.history)


def subject_name(subject: object) -> str:
    """A name for codes that are not those of a run: their file, their model or function, or just 'codes'."""
    if isinstance(subject, str | Path):
        return str(subject)
    return model_name(subject) if callable(subject) or is_scvi_model(subject) else "codes"


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
    return Store(DEFAULT_FOLDER if runs is None else runs).find(subject)


def load(run: Run | str | Path, runs: str | Path | None = None, *, model: FactoryFunction | None = None) -> Run:
    """Open a run that `fit` kept.

    Args:
        run: The run's id, the beginning of it, or its folder.
        runs: Folder of runs to find an id in. Default: 'runs'.
        model: The factory that the run was trained with, which a run does not hold. The process that trained it
            remembers it.
    """
    found = run_of(run, runs)
    if found is None:
        raise ConfigurationError(f"run must be a run, its folder, or the beginning of its id, got {quoted(run)}.")
    if model is not None:
        provide_factory(found, model)
    return found


def provide_factory(run: Run, factory: FactoryFunction) -> None:
    """Use a factory for the model of a run; a warning says what has changed since the run was trained."""
    architecture = run.configuration.architecture
    if not isinstance(architecture, FactoryArchitecture):
        raise ConfigurationError(
            f"run {run.id} was trained with the registered model {architecture.model!r}, which needs no factory. "
            "Remove model."
        )
    changes = architecture.provide(checked_factory(factory), tuple(run.configuration.data["shape"]))
    if changes:
        warnings.warn(
            f"the factory of run {run.id} has changed since it was trained: {', '.join(changes)}. Check that it still "
            "computes the same, or pass it as it was then.",
            ChangedFactoryWarning,
            stacklevel=3,
        )


def data_of(run: Run, data: DataLike | None = None) -> Dataset:
    """The data that a run was trained on, or other data with items of the same shape."""
    described = run.configuration.data
    fingerprint = described["fingerprint"]
    if data is not None:
        opened = open_scaled(data, run.pixel_scale)
        check_shape(opened, tuple(described["shape"]), f"as the data that run {run.id} was trained on")
        if opened.fingerprint == fingerprint:
            remember(data, opened)
        return opened
    kind = run.configuration.architecture.condition_kind
    known = [] if run.trained_on is None else [run.trained_on]
    for held in (*known, *recall(fingerprint)):
        try:
            opened = open_scaled(held, run.pixel_scale)
        except VaescopeError as error:
            raise DataError(f"the data of run {run.id} have changed in memory: {error} Or pass data.") from error
        if opened.fingerprint == fingerprint and has_condition(opened, kind):
            return opened
    source = run.provenance.source
    if source is None:
        what = "which have changed since" if run.trained_on is not None else "which this process does not have"
        raise DataError(f"run {run.id} was trained on data in memory ({described['name']}), {what}. Pass data.")
    try:
        opened = open_dataset(source)
    except VaescopeError as error:
        raise DataError(f"the data of run {run.id} cannot be opened: {error} Or pass data.") from error
    if opened.fingerprint != fingerprint:
        raise DataError(f"{source} has changed since run {run.id} was trained on it. Pass data to use it anyway.")
    return opened


def sample_items(data: Dataset, items: int, seed: int, model: LatentModel | None = None) -> Dataset:
    """At most `items` items, drawn by the seed; fewer if their codes under the model have many positions."""
    count = whole_number("items", items, 2)
    if isinstance(model, WrappedModel):
        count = max(2, min(count, MAX_ROWS // math.prod(model.positions)))
    return data.draw(count, seed)
