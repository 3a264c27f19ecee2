"""Find the run that a command is about, open the data that it was trained on, and draw items from them."""

from __future__ import annotations

from pathlib import Path

from vaescope.checks import whole_number
from vaescope.codes.files import CODE_FILE_SUFFIXES
from vaescope.data import DataLike, Dataset, open_dataset
from vaescope.errors import DataError, VaescopeError
from vaescope.runs.run import Run
from vaescope.runs.store import Store


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
        or Path(subject).is_file()
        or Path(subject).suffix.lower() in CODE_FILE_SUFFIXES
    ):
        return None
    store = Store(Path(runs)) if runs is not None else Store()
    return store.find(str(subject))


def data_of(run: Run, data: DataLike | None = None) -> Dataset:
    """The data that a run was trained on, or other data with items of the same shape."""
    if data is None:
        return _training_data(run)
    opened, shape = open_dataset(data), tuple(run.configuration.data["shape"])
    if tuple(opened.shape) != shape:
        raise DataError(
            f"{opened.name} must have items of shape {shape}, as the data that run {run.id} was trained on, got "
            f"{tuple(opened.shape)}."
        )
    return opened


def _training_data(run: Run) -> Dataset:
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
