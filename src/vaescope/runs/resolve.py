"""What commands are about: runs by folder or id, the data they were trained on, some of the items."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vaescope.checks import whole_number
from vaescope.codes.files import CODE_FILE_SUFFIXES
from vaescope.data import Dataset, open_dataset
from vaescope.errors import DataError, VaescopeError
from vaescope.runs.run import Run
from vaescope.runs.store import Store


def subject_name(subject: Any) -> str:
    """What to call codes that are no run: their file, the function, or just codes."""
    if isinstance(subject, str | Path):
        return str(subject)
    return getattr(subject, "__name__", type(subject).__name__) if callable(subject) else "codes"


def run_of(subject: Any, runs: str | Path | None) -> Run | None:
    """The run that a folder or the beginning of an id stands for; None for other subjects."""
    if isinstance(subject, Run):
        return subject
    if (
        not isinstance(subject, str | Path)
        or Path(subject).is_file()
        or Path(subject).suffix.lower() in CODE_FILE_SUFFIXES
    ):
        return None
    store = Store(Path(runs)) if runs is not None else Store()
    return store.find(str(subject))


def data_of(run: Run, data: Any) -> Dataset:
    """The data that a run was trained on, opened again unless given; others are allowed if their items fit."""
    if data is None:
        return _trained_on(run)
    opened, shape = open_dataset(data), tuple(run.configuration.data["shape"])
    if tuple(opened.shape) != shape:
        raise DataError(
            f"{opened.name} must have items of the shape {shape} that run {run.id} was trained on, got "
            f"{tuple(opened.shape)}."
        )
    return opened


def _trained_on(run: Run) -> Dataset:
    source, name = run.record.get("source"), run.configuration.data["name"]
    if source is None:
        raise DataError(f"run {run.id} was trained on data that it cannot open again ({name}); pass them as data.")
    try:
        opened = open_dataset(source)
    except VaescopeError as error:
        raise DataError(f"the data of run {run.id} cannot be opened again; pass them as data. {error}") from error
    if opened.fingerprint != run.configuration.data["fingerprint"]:
        raise DataError(
            f"{source} must be what run {run.id} was trained on, it has changed since. Pass data to use it."
        )
    return opened


def sample_items(data: Dataset, items: int, seed: int) -> Dataset:
    """At most so many items, drawn by the seed."""
    return data.draw(whole_number("items", items, 2), seed)
