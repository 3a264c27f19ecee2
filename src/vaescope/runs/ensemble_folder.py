"""Folders that one process at a time works in, and what a killed one leaves there."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

from vaescope.runs.record import COMPLETE, RUN_FILE

# Beside the runs: folders in which several train together, each with their ids in the order that its rows count them.
ENSEMBLES, MEMBERS_FILE, GONE = ".ensembles", "members.json", ".gone-"


def ensemble_of(run: Path) -> tuple[Path, int] | None:
    """Where a run was last begun together with others, and which of them it is there; None if it trains alone."""
    found = [(place, ids.index(run.name)) for place, ids in _workplaces(run.parent) if run.name in ids]
    return found[-1] if found else None


def remove_finished_ensembles(runs: Path) -> None:
    """Delete what killed processes left to delete, and workplaces that none will take up again.

    Runs train together in the company that they began in; where one is complete, the others have found another.
    """
    for folder in (runs / ENSEMBLES).glob(f"{GONE}*"):
        _delete(folder)
    for place, ids in _workplaces(runs):
        if any(_is_complete(runs / identity) for identity in ids):
            # Another process may clear up as well.
            with suppress(FileNotFoundError):
                remove(place)


def remove(workplace: Path) -> None:
    """Delete a workplace, renamed first, in one step: one that is half deleted must not be taken up again."""
    gone = workplace.with_name(f"{GONE}{workplace.name}")
    workplace.rename(gone)
    _delete(gone)


def _delete(folder: Path) -> None:
    """Delete a folder to the end, though another process that clears up may be deleting it as well."""
    while folder.exists():
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)


def _workplaces(runs: Path) -> list[tuple[Path, list[str]]]:
    """Every workplace and the ids of those that train there, the last begun at the end."""
    found = []
    for file in (runs / ENSEMBLES).glob(f"[!.]*/{MEMBERS_FILE}"):
        with suppress(FileNotFoundError):  # they are done meanwhile
            found.append((file.stat().st_mtime_ns, file.parent, json.loads(file.read_bytes())))
    return [(place, ids) for _, place, ids in sorted(found)]


def _is_complete(run: Path) -> bool:
    """Whether a run says so; what is damaged does not, and is named when it is opened."""
    try:
        return json.loads((run / RUN_FILE).read_bytes())["status"] == COMPLETE
    except (OSError, ValueError, KeyError, TypeError):
        return False
