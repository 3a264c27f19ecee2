"""Folders of runs in training: locks, ensembles, and what killed processes leave of them; nothing here loads torch."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from vaescope.errors import BusyError, RunError
from vaescope.runs.record import COMPLETE, RUN_FILE

# Next to the runs: one folder for each ensemble, with the ids of its members in the order in which its rows count them.
ENSEMBLES, MEMBERS_FILE, DELETED_PREFIX = ".ensembles", "members.json", ".gone-"
SWEEP_PREFIX = ".sweep-"  # of the file that marks a running sweep


@contextmanager
def locked(folders: list[Path]) -> Iterator[None]:
    """Lock run folders, so that only one process trains a run; the locks end with the process, also if it is killed."""
    from filelock import FileLock, Timeout

    with ExitStack() as held:
        for folder in folders:
            make_folder(folder)
            try:
                held.enter_context(FileLock(folder / ".lock").acquire(timeout=0))
            except Timeout as error:
                raise BusyError(
                    f"{folder} is being trained by another process. Wait for it, or stop it first."
                ) from error
            except OSError as error:
                raise _not_writable(folder, error) from error
        yield


def make_folder(path: Path) -> None:
    """Make a folder and those above it, unless they exist."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_writable(path, error) from error


def _not_writable(path: Path, error: OSError) -> RunError:
    return RunError(
        f"{path} must be a folder that can be written to ({error.strerror}). Free some space, or choose another folder "
        "for runs."
    )


@contextmanager
def sweep_marker(runs: Path) -> Iterator[Path]:
    """A locked file by which other machines know that they share the folder of runs; removes those of killed sweeps."""
    from filelock import FileLock, Timeout

    for left in runs.glob(f"{SWEEP_PREFIX}????????"):
        # Its sweep is running, or it is another user's.
        with suppress(Timeout, PermissionError), FileLock(left).acquire(timeout=0):
            left.unlink(missing_ok=True)
    marker = runs / f"{SWEEP_PREFIX}{secrets.token_hex(4)}"
    try:
        with FileLock(marker):
            yield marker
    finally:
        marker.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Remove files that a killed process left half written."""
    for part in folder.glob(".*.part"):
        part.unlink()


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
