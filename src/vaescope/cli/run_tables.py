"""Tables of runs: what tells them apart and what came of them, the most telling columns first."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vaescope.cli.tables import print_table
from vaescope.numerics.variable_type_names import VARIABLE_TYPES

Row = dict[str, Any]
# What is told of a run beside the settings that vary, the most telling first.
TELLING = ("test_loss", "status", "latents", "seed", "step", "data", "objective", "model")
ENDS = ("train_", "test_")  # of the history


def print_runs(rows: Sequence[Row], names: Sequence[str], folder: Path, more: str) -> None:
    """Some columns of runs in a folder; on a narrow terminal, those that tell the most of them."""
    # Files are read again for the names, which a pipe has no use for.
    first = _telling_first(rows, names, measured_names(rows, folder)) if sys.stdout.isatty() else ()
    print_table(names, [[row.get(name) for name in names] for row in rows], first=first, more=more)


def measured_names(rows: Sequence[Row], folder: Path) -> set[str]:
    """The columns that hold what was measured of the runs."""
    from vaescope.runs.rows import measured_values

    return {name for row in rows for name in measured_values(folder / row["id"])}


def is_outcome(name: str, measured: set[str]) -> bool:
    """Whether a column holds what came of training; others hold what was asked for."""
    return name in measured or name in ("status", "step", *VARIABLE_TYPES) or name.startswith(ENDS)


def varies(rows: Sequence[Row], name: str) -> bool:
    """Whether runs differ in a column."""
    return len({str(row.get(name)) for row in rows}) > 1


def _telling_first(rows: Sequence[Row], names: Sequence[str], measured: set[str]) -> list[str]:
    settings = [name for name in names if not is_outcome(name, measured)]
    results = [name for name in names if is_outcome(name, measured)]
    groups = [
        ["id"],
        [name for name in settings if varies(rows, name)],
        [name for name in TELLING if name in names],
        [name for name in results if name in measured],
        [name for name in results if varies(rows, name)],
        names,
    ]
    return list(dict.fromkeys(name for group in groups for name in group))
