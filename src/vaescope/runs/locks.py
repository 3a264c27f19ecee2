"""Locks on run folders: one process at a time trains a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from vaescope.errors import BusyError, RunError


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


def remove_leftovers(folder: Path) -> None:
    """Remove files that a killed process left half written."""
    for part in folder.glob(".*.part"):
        part.unlink()
