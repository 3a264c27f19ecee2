"""A search on disk: measured gaps, training states and the result, so that an interrupted search resumes."""

from __future__ import annotations

import dataclasses
import json
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol, TypeAlias

from vaescope.checks import without_infinities
from vaescope.errors import DamagedRunWarning, RunError
from vaescope.files import write_atomically
from vaescope.objectives import OBJECTIVES
from vaescope.runs.folders import Ownership, make_folder, remove_leftovers
from vaescope.runs.journal import Journal
from vaescope.runs.record import Table, hash_of
from vaescope.runs.sealed import CHECKSUM, NO_CHECKSUM, digest_of, naming, read_sealed, sealed
from vaescope.runs.verifying import problems_of
from vaescope.sizing.gaps import GapTerms
from vaescope.sizing.kinds import ROUNDS
from vaescope.training import Member
from vaescope.training.checkpoint import State, load_state, save_state

RESULT_FILE, STATES_FOLDER, TIME_FILE, CHECK_FILE = "fondue.json", "states", "spent.json", "elbow.json"
RESULT_FILES = "fondue*.json"  # those of a folder: searches of other kinds share its models
SEARCH_PREFIX, CHECK_PREFIX = "fondue-", "elbow-"
COMPLETE_FILE, NEXT_SUFFIX = "complete", ".next"  # the new states of a group, and that all of them are written
SINCE_CHECKSUMS = "seconds_per_step"  # results that have it were written with a checksum


# Label of a gap, model, number of periods it has trained for.
MeasurementKey: TypeAlias = tuple[str, Member, int]


class Savable(Protocol):
    """A result that can be written as JSON."""

    def plain(self) -> Mapping[str, object]:
        """Everything in tables, lists, text and numbers."""


class GapJournal:
    """Measured gaps; each is on disk before it counts.

    In the file, a row of a history, the period is called 'step' and the label of the gap 'split'.
    """

    def __init__(self, folder: Path, owned: Ownership | None = None) -> None:
        make_folder(folder)
        remove_leftovers(folder)
        self._journal = Journal(folder, owned)
        self._found = read_gaps(self._journal)
        self._journal.replace(self._journal.rows())  # drops a last line that was cut short

    def __contains__(self, key: MeasurementKey) -> bool:
        gap, member, period = key
        return (gap, member_id(member), period) in self._found

    def __getitem__(self, key: MeasurementKey) -> GapTerms:
        gap, member, period = key
        return self._found[gap, member_id(member), period]

    def __setitem__(self, key: MeasurementKey, terms: GapTerms) -> None:
        gap, member, period = key
        name, own = member_id(member), {"minuend": terms.minuend, "subtrahend": terms.subtrahend}
        self._journal.append([sealed({"step": period, "split": gap, "member": name, **own})])
        self._found[gap, name, period] = terms


def read_gaps(journal: Journal) -> dict[tuple[str, str, int], GapTerms]:
    """The measured gaps by label, model and period."""
    folder = journal.path.parent
    with naming(journal.path, f"Restore it from a backup, or move {folder} elsewhere to search again."):
        return {
            (row["split"], row["member"], row["step"]): GapTerms(row["minuend"] + 0.0, row["subtrahend"] + 0.0)
            for row in _verified(journal.rows())
        }


def _verified(rows: list[Table]) -> Iterator[Table]:
    """The rows, each of which carries its checksum; those of version 0.1 do not, and come first."""
    began = False
    for number, row in enumerate(rows, 1):
        checksum = row.get(CHECKSUM)
        began = began or checksum is not None
        if began and checksum != digest_of({name: value for name, value in row.items() if name != CHECKSUM}):
            raise ValueError(f"the checksum of line {number} does not match its content")
        yield row


class StateFiles:
    """Training states, one file per model, removed when the search is done.

    Models that train together are replaced together. If only some of them were, the others would train in a smaller
    group, whose sums are rounded differently.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / STATES_FOLDER
        make_folder(self._folder)
        remove_leftovers(self._folder)
        if (self._folder / COMPLETE_FILE).exists():
            self._replace()
        for file in self._folder.glob(f"*{NEXT_SUFFIX}"):
            file.unlink()

    def get(self, member: Member) -> State | None:
        file = self._file(member)
        return load_state(file) if file.is_file() else None

    def update(self, states: Mapping[Member, State]) -> None:
        """Replace the states of these models: of all of them, or of none if the process is killed before."""
        for member, state in states.items():
            file = self._file(member)
            save_state(file.with_name(file.name + NEXT_SUFFIX), state)
        write_atomically(self._folder / COMPLETE_FILE, b"")
        self._replace()

    def __delitem__(self, member: Member) -> None:
        self._file(member).unlink()

    def clear(self) -> None:
        shutil.rmtree(self._folder)

    def _replace(self) -> None:
        """Put the new states in place; repeated after a kill."""
        for file in self._folder.glob(f"*{NEXT_SUFFIX}"):
            file.replace(file.with_name(file.name.removesuffix(NEXT_SUFFIX)))
        (self._folder / COMPLETE_FILE).unlink()

    def _file(self, member: Member) -> Path:
        return self._folder / f"{member_id(member)}.safetensors"


# On disk or in memory.
Measurements: TypeAlias = GapJournal | dict[MeasurementKey, GapTerms]
States: TypeAlias = StateFiles | dict[Member, State]


def member_id(member: Member) -> str:
    """A hash of size, objective, learning rate and seed."""
    return hash_of({**dataclasses.asdict(member), "objective": OBJECTIVES.plain(member.objective)})


def result_file(search: str) -> str:
    """The file of the result of one kind of search; rounds, the first kind, have the plain name."""
    return RESULT_FILE if search == ROUNDS else RESULT_FILE.replace(".", f"-{search}.")


def save_result(folder: Path, result: Savable, file: str = RESULT_FILE) -> None:
    """Write a result as JSON."""
    write_atomically(folder / file, json.dumps(sealed(without_infinities(result.plain())), indent=2).encode())


def add_training_time(folder: Path, seconds: float, steps: int) -> float | None:
    """Add to the training time of a folder; returns the seconds per step of one model over all its searches."""
    file = folder / TIME_FILE
    spent = {"seconds": 0.0, "steps": 0}
    with (
        naming(file, "It holds only training times: move it elsewhere to measure them again."),
        suppress(FileNotFoundError),
    ):
        kept = json.loads(file.read_bytes())
        spent = {"seconds": float(kept["seconds"]), "steps": int(kept["steps"])}
    if steps:
        spent = {"seconds": spent["seconds"] + seconds, "steps": spent["steps"] + steps}
        write_atomically(file, json.dumps(spent).encode())
    return spent["seconds"] / spent["steps"] if spent["steps"] else None


def save_check(runs: Path, check: Savable, ids: list[str]) -> None:
    """Write an elbow check into the folder of the runs with these ids."""
    folder = runs / f"{CHECK_PREFIX}{hash_of(sorted(ids))}"
    make_folder(folder)
    save_result(folder, check, CHECK_FILE)


def load_results(runs: Path) -> list[Table]:
    """The results of all finished searches in a folder of runs, as tables."""
    return _load(runs, f"{SEARCH_PREFIX}*/{RESULT_FILES}")


def load_checks(runs: Path) -> list[Table]:
    """The results of all elbow checks in a folder of runs, as tables."""
    return _load(runs, f"{CHECK_PREFIX}*/{CHECK_FILE}")


def _load(runs: Path, pattern: str) -> list[Table]:
    """Every result with its summary and data; a damaged file is left out, with a warning that names it."""
    found: list[Table] = []
    for file in sorted(runs.glob(pattern)):
        try:
            found.append(read_result(file))
        except FileNotFoundError:  # the search is gone
            continue
        except RunError as error:
            warnings.warn(f"{error} The search is left out.", DamagedRunWarning, stacklevel=3)
    return found


def read_result(file: Path) -> Table:
    """The result of a search or of an elbow check."""
    with naming(file, "Repeat the same search: it writes the file again without training."):
        content, has_checksum = read_sealed(file)
        table: Table = content
        if SINCE_CHECKSUMS in table and not has_checksum:
            raise ValueError(NO_CHECKSUM)
        _ = table["summary"] + "", table["data"].get("fingerprint")
    return table


def damaged_searches(runs: Path) -> list[RunError]:
    """What is wrong with the files of searches and elbow checks in a folder of runs."""
    searches = sorted(runs.glob(f"{SEARCH_PREFIX}*"))
    results = [*runs.glob(f"{SEARCH_PREFIX}*/{RESULT_FILES}"), *runs.glob(f"{CHECK_PREFIX}*/{CHECK_FILE}")]
    states = runs.glob(f"{SEARCH_PREFIX}*/{STATES_FOLDER}/[!.]*.safetensors")
    return problems_of(
        [
            *(partial(read_result, file) for file in results),
            *(partial(read_gaps, Journal(folder)) for folder in searches),
            *(partial(load_state, file) for file in states),
        ]
    )
