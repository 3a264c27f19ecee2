"""Folders in which the runs of an ensemble train together, and what killed processes leave of them."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

from vaescope.runs.record import COMPLETE, RUN_FILE

# Next to the runs: one folder for each ensemble, with the ids of its members in the order in which its rows count them.
ENSEMBLES, MEMBERS_FILE, DELETED_PREFIX = ".ensembles", "members.json", ".gone-"


def ensemble_of(run: Path) -> tuple[Path, int] | None:
    """The folder of the ensemble that a run was last trained in, and its position there; None if it trains alone."""
    found = [(folder, ids.index(run.name)) for folder, ids in _ensembles(run.parent) if run.name in ids]
    return found[-1] if found else None


def remove_finished_ensembles(runs: Path) -> None:
    """Delete what killed processes left half deleted, and ensembles that cannot resume.

    Ensembles resume with the same members: where one of them is complete, the others train in another ensemble.
    """
    for folder in (runs / ENSEMBLES).glob(f"{DELETED_PREFIX}*"):
        _delete(folder)
    for folder, ids in _ensembles(runs):
        if any(_is_complete(runs / identity) for identity in ids):
            # Another process may delete it at the same time.
            with suppress(FileNotFoundError):
                delete_ensemble(folder)


def delete_ensemble(folder: Path) -> None:
    """Delete the folder of an ensemble, renamed first in one step: a half deleted one must not resume."""
    renamed = folder.with_name(f"{DELETED_PREFIX}{folder.name}")
    folder.rename(renamed)
    _delete(renamed)


def _delete(folder: Path) -> None:
    """Delete a folder, even if another process is deleting it at the same time."""
    while folder.exists():
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)


def _ensembles(runs: Path) -> list[tuple[Path, list[str]]]:
    """The folder of every ensemble and the ids of its members, the most recent last."""
    found = []
    for file in (runs / ENSEMBLES).glob(f"[!.]*/{MEMBERS_FILE}"):
        with suppress(FileNotFoundError):  # another process finished it
            found.append((file.stat().st_mtime_ns, file.parent, json.loads(file.read_bytes())))
    return [(folder, ids) for _, folder, ids in sorted(found)]


def _is_complete(run: Path) -> bool:
    """Whether run.json says so; a damaged one does not, and is named when it is opened."""
    try:
        return bool(json.loads((run / RUN_FILE).read_bytes())["status"] == COMPLETE)
    except (OSError, ValueError, KeyError, TypeError):
        return False
