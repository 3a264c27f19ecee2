"""What a diagnosis or a report is about: codes, with the model, items, run and history that belong to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vaescope.codes import Representation
from vaescope.data import DataLike, Dataset, open_dataset
from vaescope.encoding import adapt, encode
from vaescope.errors import RunError
from vaescope.runs import Run
from vaescope.runs.store import data_of, run_of, sample_items, subject_name

MAX_ITEMS = 10_000
NOT_A_RUN = "these are codes, not a run"

# Rows of a run's history hold `step`, `split` and any named number.
History = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Subject:
    """Codes, with everything else that is known about the model they come from.

    Attributes:
        name: The run's id, the file name, or the function's name.
        codes: The representation of the encoded items.
        model: The model, or what was given in its place.
        items: The items that were encoded; None if only codes were given.
        run: The run; None for codes and functions.
        history: The rows of the run's history; empty if there is none.
        missing: Name of a missing part -> why it is missing.
    """

    name: str
    codes: Representation = field(repr=False)
    model: object = None
    items: Dataset | None = None
    run: Run | None = None
    history: History = field(default=(), repr=False)
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def factor_names(self) -> tuple[str, ...] | None:
        """The names of the factors that come with the codes; None if there are none."""
        table = None if self.items is None else self.items.factor_table
        return None if table is None or self.codes.factors is None else table.names


def load_subject(
    subject: object,
    data: DataLike | None = None,
    *,
    items: int = MAX_ITEMS,
    seed: int = 0,
    runs: str | Path | None = None,
) -> Subject:
    """Encode what `diagnose` was given; see there for the arguments."""
    run = run_of(subject, runs)
    if run is None:
        encoded = None if data is None else sample_items(open_dataset(data), items, seed)
        codes = adapt(subject, encoded, seed=seed)
        missing = {"History": f"{NOT_A_RUN}, so there is no training history."}
        return Subject(subject_name(subject), codes, subject, encoded, missing=missing)
    encoded = sample_items(data_of(run, data), items, seed)
    codes = encode(run.model, encoded, seed=seed)
    history, reason = history_of(run)
    return Subject(run.id, codes, run.model, encoded, run, history, {"History": reason} if reason else {})


def history_of(run: Run) -> tuple[History, str]:
    """The rows of a run's history and an empty reason, or no rows and the reason why.

    A model can be diagnosed without its history, so a damaged history is not an error here.
    """
    try:
        rows = run.history
    except RunError as error:
        return [], str(error)
    return rows, "" if rows else f"run {run.id} has no training history."
