"""What diagnoses and reports are made from: codes, and around them whatever the subject has."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vaescope.codes import Representation
from vaescope.data import Dataset, open_dataset
from vaescope.encoding import adapt, encode
from vaescope.errors import RunError
from vaescope.runs import Run
from vaescope.runs.resolve import data_of, run_of, sample_items, subject_name

ITEMS = 10_000


@dataclass(frozen=True)
class Material:
    """Codes of a model; its run, history, weights and the items that were encoded where there are any.

    `left_out` says of every part that could not be had why.
    """

    name: str
    codes: Representation = field(repr=False)
    model: Any = None
    items: Dataset | None = None
    run: Run | None = None
    history: list[dict[str, Any]] = field(default_factory=list, repr=False)
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def factor_names(self) -> tuple[str, ...] | None:
        """The names of the factors that come with the codes."""
        table = None if self.items is None else self.items.factor_table
        return None if table is None or self.codes.factors is None else table.names


def gather(
    subject: Any, data: Any = None, *, items: int = ITEMS, seed: int = 0, runs: str | Path | None = None
) -> Material:
    """The material of a `Run` (or its folder or id), codes in any form, or a function that encodes `data`."""
    run = run_of(subject, runs)
    if run is None:
        some = None if data is None else sample_items(open_dataset(data), items, seed)
        codes = adapt(subject, some, seed=seed)
        missing = {"History": "these are codes, not a run: there is no history of training."}
        return Material(subject_name(subject), codes, subject, some, left_out=missing)
    some = sample_items(data_of(run, data), items, seed)
    codes = encode(run.model, some, seed=seed)
    history, reason = history_of(run)
    return Material(run.id, codes, run.model, some, run, history, {"History": reason} if reason else {})


def history_of(run: Run) -> tuple[list[dict[str, Any]], str]:
    """The rows, or none and the reason: what the model is can be said without how it became so."""
    try:
        rows = run.history
    except RunError as error:
        return [], str(error)
    return rows, "" if rows else f"run {run.id} has no history of training."
