"""Verify every file of runs against the checksums that they were written with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vaescope.errors import RunError
from vaescope.progress import track
from vaescope.runs.folders import ENSEMBLES, MEMBERS_FILE, read_members
from vaescope.runs.journal import Journal
from vaescope.runs.record import COMPLETE, LAST_GOOD_FILE, STATE_FILE, SUMMARY_FILE
from vaescope.runs.rows import read_measurements, run_folders
from vaescope.runs.run import Run
from vaescope.runs.sealed import naming, read_sealed
from vaescope.runs.store import Store
from vaescope.training.checkpoint import load_state

MAX_SILENT_RUNS = 100  # about two seconds


@dataclass(frozen=True)
class Verification:
    """What was verified, and what is wrong.

    Attributes:
        runs: Number of runs.
        without_checksums: Runs that were made before files carried checksums: those files were only read.
        problems: One error for each bad file, which names it and says what to do.
    """

    runs: int
    without_checksums: tuple[str, ...]
    problems: tuple[RunError, ...]

    def summary(self) -> str:
        """How many runs were verified, and how many files are bad."""
        count = len(self.problems)
        text = f"{self.runs} {'run' if self.runs == 1 else 'runs'} verified: "
        text += f"{count} bad {'file' if count == 1 else 'files'}" if count else "every file is what was written"
        if self.without_checksums:
            text += f"; checked: no checksums in {len(self.without_checksums)}, which an earlier version made"
        return f"{text}."


def verify(folder: Path, ids: Iterable[str] = ()) -> Verification:
    """Read every file of the runs with these ids (default: all runs and unfinished ensembles), and verify checksums."""
    wanted = list(ids)
    runs = [Store(folder).locate(one) for one in wanted] if wanted else run_folders(folder)
    ensembles = [] if wanted else sorted((folder / ENSEMBLES).glob("[!.]*"))
    problems: list[RunError] = []
    without: list[str] = []
    for path in track(runs, "verify", len(runs), long=len(runs) > MAX_SILENT_RUNS):
        run = Run(path)
        bad = problems_of([partial(Run.open, path)])
        if not bad:
            bad = problems_of(_run_checks(run))
            if not run.record.has_checksums:
                without.append(run.id)
        problems += bad
    for path in ensembles:
        problems += problems_of(_ensemble_checks(path))
    return Verification(len(runs), tuple(without), tuple(problems))


def _run_checks(run: Run) -> list[Callable[[], object]]:
    """Functions that raise an error if a file of the run is not what was written."""
    checks: list[Callable[[], object]] = [
        lambda: _check_summary(run),
        lambda: read_measurements(run.path),
        lambda: run.failure,
        lambda: run.history,
    ]
    if run.status == COMPLETE:
        checks.append(lambda: run.model)
    states = (run.path / name for name in (STATE_FILE, LAST_GOOD_FILE))
    return checks + [partial(load_state, file) for file in states if file.is_file()]


def _check_summary(run: Run) -> None:
    file = run.path / SUMMARY_FILE
    with naming(file, "It is not used: runs are listed from their other files. Move it elsewhere."):
        _, has_checksum = read_sealed(file)
        run.record.check_sealed(has_checksum)


def _ensemble_checks(folder: Path) -> list[Callable[[], object]]:
    state = folder / STATE_FILE
    checks: list[Callable[[], object]] = [partial(read_members, folder / MEMBERS_FILE), Journal(folder).rows]
    return checks + ([partial(load_state, state)] if state.is_file() else [])


def problems_of(checks: Iterable[Callable[[], object]]) -> list[RunError]:
    """The errors that the checks raise; a missing file is not an error."""
    found = []
    for check in checks:
        try:
            check()
        except FileNotFoundError:
            continue
        except RunError as error:
            found.append(error)
    return found
