"""Tables of runs: the settings that vary and the results, the most important columns first."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from vaescope.cli.tables import Row, print_table
from vaescope.numerics.variable_type_names import VARIABLE_TYPES

# Columns to show in addition to the settings that vary, the most important first.
PRIORITY_COLUMNS = ("test_loss", "status", "latents", "seed", "step", "data", "objective", "model")
HISTORY_PREFIXES = ("train_", "test_")


def print_runs(rows: Sequence[Row], names: Sequence[str], folder: Path, more: str) -> None:
    """Print columns of the runs in a folder; a narrow terminal shows the most important ones."""
    # The order needs files to be read again; a pipe shows all columns anyway.
    first = _by_importance(rows, names, measured_names(rows, folder)) if sys.stdout.isatty() else ()
    print_table(names, [[row.get(name) for name in names] for row in rows], first=first, more=more)


def measured_names(rows: Sequence[Row], folder: Path) -> set[str]:
    """The columns that hold measurements."""
    from vaescope.runs.rows import measured_values

    return {name for row in rows for name in measured_values(folder / str(row["id"]))}


def is_outcome(name: str, measured: set[str]) -> bool:
    """Whether a column holds a result; other columns hold settings."""
    return name in measured or name in ("status", "step", *VARIABLE_TYPES) or name.startswith(HISTORY_PREFIXES)


def varies(rows: Sequence[Row], name: str) -> bool:
    """Whether a column has more than one value."""
    return len({str(row.get(name)) for row in rows}) > 1


def _by_importance(rows: Sequence[Row], names: Sequence[str], measured: set[str]) -> list[str]:
    settings = [name for name in names if not is_outcome(name, measured)]
    results = [name for name in names if is_outcome(name, measured)]
    groups = [
        ["id"],
        [name for name in settings if varies(rows, name)],
        [name for name in PRIORITY_COLUMNS if name in names],
        [name for name in results if name in measured],
        [name for name in results if varies(rows, name)],
        names,
    ]
    return list(dict.fromkeys(name for group in groups for name in group))
