"""Folders of runs in training: locks, ensembles, and what killed processes leave of them; nothing here loads torch."""

from __future__ import annotations

import json
import secrets
import shutil
import warnings
from collections.abc import Iterator, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from vaescope.errors import BusyError, RunError, unreadable
from vaescope.files import write_atomically
from vaescope.runs.record import COMPLETE, RUN_FILE
from vaescope.runs.sealed import DAMAGE, naming

# Next to the runs: one folder for each ensemble, with the ids of its members in the order in which its rows count them.
ENSEMBLES, MEMBERS_FILE, DELETED_PREFIX = ".ensembles", "members.json", ".gone-"
SWEEP_PREFIX = ".sweep-"  # of the file that marks a running sweep
OWNER_FILE = ".owner"  # holds the token of the process that trains here


@dataclass(frozen=True)
class Ownership:
    """Run folders that this process has locked, and the token that it left in each of them.

    A lock alone does not tell two processes apart: if the folder is deleted and made again while its process is
    suspended, both hold a lock of that name. The token is that of the process that came last.
    """

    folders: tuple[Path, ...]
    token: str

    def check(self) -> None:
        """Raise an error if another process has taken over a folder, or if it is gone."""
        for folder in self.folders:
            try:
                found = _owner_of(folder)
            except OSError as error:
                raise _not_writable(folder, error) from error
            if found is None:
                raise RunError(
                    f"{folder} must stay in place while it is trained, but it was moved or deleted. Put it back, or "
                    "run the same command again to train it from the start."
                )
            if found != self.token:
                raise BusyError(
                    f"{folder} must be trained by one process at a time, but another one has taken it over. This "
                    "one stops: wait for the other."
                )

    def release(self, folder: Path) -> None:
        """Remove the token, unless it is that of another process."""
        with suppress(OSError):  # a token that stays does no harm: the next process writes its own
            if _owner_of(folder) == self.token:
                (folder / OWNER_FILE).unlink()


def _owner_of(folder: Path) -> str | None:
    """The token of the process that came last; None if there is none."""
    try:
        return (folder / OWNER_FILE).read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return None


@contextmanager
def locked(folders: list[Path]) -> Iterator[Ownership]:
    """Lock run folders, so that only one process trains a run; the locks end with the process, also if it is killed."""
    from filelock import FileLock, Timeout

    owned = Ownership(tuple(folders), secrets.token_hex(16))
    with ExitStack() as held:
        for folder in folders:
            make_folder(folder)
            try:
                held.enter_context(FileLock(folder / ".lock").acquire(timeout=0))
                held.callback(owned.release, folder)
                write_atomically(folder / OWNER_FILE, owned.token.encode("ascii"))
            except Timeout as error:
                raise BusyError(
                    f"{folder} is being trained by another process. Wait for it, or stop it first."
                ) from error
            except OSError as error:
                raise _not_writable(folder, error) from error
        yield owned


def make_folder(path: Path) -> None:
    """Make a folder and those above it, unless they exist."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_writable(path, error) from error


def _not_writable(path: Path, error: OSError) -> RunError:
    return RunError(
        f"{path} must be a folder that can be written to ({error.strerror}). Check its name, its permissions and the "
        "space on its disk, or choose another folder for runs."
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
    found = [(folder, ids.index(run.name)) for folder, ids in ensembles_in(run.parent) if run.name in ids]
    return found[-1] if found else None


def remove_finished_ensembles(runs: Path) -> None:
    """Delete what killed processes left half deleted, and ensembles that cannot resume.

    Ensembles resume with the same members: where one of them is complete, the others train in another ensemble.
    """
    for folder in _matching(runs, f"{DELETED_PREFIX}*"):
        try:
            delete_folder(folder)
        except RunError as error:  # nothing depends on it
            warnings.warn(str(error), stacklevel=2)
    for folder, ids in ensembles_in(runs):
        if any(_is_complete(runs / identity) for identity in ids):
            # Another process may delete it at the same time.
            with suppress(FileNotFoundError):
                delete_ensemble(folder)


def delete_ensemble(folder: Path) -> None:
    """Delete the folder of an ensemble, renamed first in one step: a half deleted one must not resume."""
    renamed = folder.with_name(f"{DELETED_PREFIX}{folder.name}")
    with _removing(folder):
        folder.rename(renamed)
    delete_folder(renamed)


def delete_ensembles_of(runs: Path, ids: Set[str]) -> None:
    """Delete the ensembles of deleted runs of which no other member is left."""
    for folder, members in ensembles_in(runs):
        if ids & set(members) and not any((runs / identity).exists() for identity in members):
            delete_ensemble(folder)


def move_out(run: Path) -> Path:
    """Move the folder of a run aside, where the next training deletes it if this process does not; returns the path."""
    aside = run.parent / ENSEMBLES
    make_folder(aside)
    if aside.is_symlink():
        raise RunError(f"{aside} must be a folder for runs to be deleted, but it is a link. Move the link elsewhere.")
    moved = aside / f"{DELETED_PREFIX}{run.name}-{secrets.token_hex(4)}"
    with _removing(run):
        run.rename(moved)
    return moved


def delete_folder(folder: Path) -> None:
    """Delete a folder, even if another process is deleting it at the same time."""
    while folder.exists():
        with suppress(FileNotFoundError), _removing(folder):
            shutil.rmtree(folder)


@contextmanager
def _removing(folder: Path) -> Iterator[None]:
    """Say in one sentence that a folder cannot be removed; another process may remove it first."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RunError(
            f"{folder} must be removable ({error.strerror}). Check who owns the folder and its permissions."
        ) from error


def ensembles_in(runs: Path) -> list[tuple[Path, list[str]]]:
    """The folder of every ensemble and the ids of its members, the most recent last; a damaged one is left out."""
    found = []
    for file in _matching(runs, f"[!.]*/{MEMBERS_FILE}"):
        try:
            found.append((file.stat().st_mtime_ns, file.parent, read_members(file)))
        except FileNotFoundError:  # another process finished it
            continue
        except RunError as error:
            warnings.warn(str(error), stacklevel=2)
    return [(folder, ids) for _, folder, ids in sorted(found)]


def _matching(runs: Path, pattern: str) -> list[Path]:
    """The paths of a pattern below the folder of ensembles."""
    try:
        return list((runs / ENSEMBLES).glob(pattern))
    except OSError as error:
        raise unreadable(runs, error) from error


def read_members(file: Path) -> list[str]:
    """The ids of the members of an ensemble, in the order in which its rows count them."""
    with naming(file, "The same fit writes it again; until then, runs of this ensemble have no history."):
        ids = json.loads(file.read_bytes())
        if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
            raise TypeError(f"it must hold a list of ids, got {ids!r}")
    return ids


def _is_complete(run: Path) -> bool:
    """Whether run.json says that the run is complete; False for a damaged one, which is named when it is opened."""
    try:
        return bool(json.loads((run / RUN_FILE).read_bytes())["status"] == COMPLETE)
    except (OSError, *DAMAGE):
        return False
