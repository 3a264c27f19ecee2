"""Delete runs: what is in their folders, and nothing else."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vaescope.errors import RunError, unreadable
from vaescope.runs.folders import delete_ensembles_of, delete_folder, locked, move_out
from vaescope.runs.record import RUN_FILE, RunRecord
from vaescope.runs.rows import Row, read_row

RUN_ID = re.compile(r"[0-9a-f]{12}")
SHOWN = ("status", "data", "latents", "objective", "seed", "step")  # in a listing before runs are deleted


@dataclass(frozen=True)
class Deletable:
    """A run that can be deleted: its folder, and the bytes of the files in it."""

    path: Path
    bytes: int

    @property
    def id(self) -> str:
        """The name of the folder."""
        return self.path.name

    def row(self) -> Row:
        """What a listing shows before the run is deleted; of a damaged one only its id and size."""
        try:
            known = read_row(self.path) or {}
        except RunError:
            known = {"status": "damaged"}
        return {"id": self.id, **{name: known[name] for name in SHOWN if name in known}, "bytes": self.bytes}


def check_deletable(paths: Sequence[Path], store: Path) -> list[Deletable]:
    """The runs in these folders; an error unless each is a run of the store, not a link, and not in training."""
    found = list(dict.fromkeys(paths))
    for path in found:
        if path.is_symlink():
            raise RunError(
                f"{path} must be a folder to be deleted, but it is a link to {os.readlink(path)}. "
                "Delete the link yourself if you do not need it."
            )
        if path.parent.resolve() != store.resolve():
            raise RunError(f"{path} must be a run in {store} to be deleted from there. Name its folder of runs.")
        if not _is_run(path):
            raise RunError(
                f"{path} must be the folder of a run, but its {RUN_FILE} does not describe one. Check its name."
            )
    runs = [Deletable(path, disk_use(path)) for path in found]
    with locked(found):  # an error if a process trains one
        return runs


def delete(runs: Sequence[Deletable]) -> None:
    """Delete runs, and the ensembles that only they were trained in; each leaves the store in one step."""
    with locked([run.path for run in runs]):
        moved = [move_out(run.path) for run in runs]
    for folder in moved:
        delete_folder(folder)
    for store in {run.path.parent for run in runs}:
        delete_ensembles_of(store, {run.id for run in runs})


def disk_use(folder: Path) -> int:
    """The bytes of the files below a folder; links are not followed."""
    try:
        files = [Path(parent, name) for parent, _, names in os.walk(folder, onerror=_raise) for name in names]
        return sum(file.lstat().st_size for file in files)
    except OSError as error:
        raise unreadable(folder, error) from error


def _raise(error: OSError) -> None:
    raise error


def _is_run(path: Path) -> bool:
    """Whether a folder holds a run; a damaged one is known by its name."""
    try:
        RunRecord.read(path / RUN_FILE)
    except FileNotFoundError:
        return False
    except RunError:
        return RUN_ID.fullmatch(path.name) is not None
    return True
