"""A search on disk: what was read of each model and where each stands, so that a stopped search goes on."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

from vaescope.checks import without_infinities
from vaescope.errors import RunError
from vaescope.objectives import OBJECTIVES
from vaescope.runs.configuration import hash_of
from vaescope.runs.journal import Journal
from vaescope.runs.locks import make_folder, remove_leftovers
from vaescope.sizing.gaps import Reading
from vaescope.sizing.model_pool import Key
from vaescope.training import Member
from vaescope.training.checkpoint import load_state, save_state, write_atomically
from vaescope.training.state import State

RESULT_FILE, STATES = "fondue.json", "states"
SPENT_FILE = "spent.json"
CHECK_FILE = "elbow.json"
PREFIX, CHECK_PREFIX = "fondue-", "elbow-"


def name_of(member: Member) -> str:
    """A hash of what is a model's own."""
    table = dataclasses.asdict(member)
    return hash_of({**table, "objective": OBJECTIVES.plain(member.objective)})


class Readings(MutableMapping[Key, Reading]):
    """Readings that are on disk before they count."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        remove_leftovers(folder)
        self._journal = Journal(folder)
        rows = self._journal.rows()
        self._journal.replace(rows)  # without a last line that was cut short
        try:
            self._found = {
                (row["split"], row["member"], row["step"]): Reading(row["minuend"] + 0.0, row["subtrahend"] + 0.0)
                for row in rows
            }
        except (KeyError, TypeError) as error:
            raise RunError(
                f"{self._journal.path} is damaged ({type(error).__name__}: {error}). Delete the folder to search again."
            ) from error

    def __getitem__(self, key: Key) -> Reading:
        return self._found[self._name(key)]

    def __setitem__(self, key: Key, reading: Reading) -> None:
        gap, member, period = name = self._name(key)
        row = {"step": period, "split": gap, "member": member, **dataclasses.asdict(reading)}
        self._journal.append([row])
        self._found[name] = reading

    def __contains__(self, key: object) -> bool:
        return self._name(key) in self._found

    def __delitem__(self, key: Key) -> None:
        raise RunError("a reading that was kept is not deleted; delete the folder of the search.")

    def __iter__(self) -> Iterator[Any]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @staticmethod
    def _name(key: Any) -> tuple[str, str, int]:
        gap, member, period = key
        return gap, name_of(member), period


class States(MutableMapping[Member, State]):
    """States of models, one file each, gone when the search is done."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / STATES
        make_folder(self._folder)
        remove_leftovers(self._folder)

    def __getitem__(self, member: Member) -> State:
        file = self._file(member)
        if not file.is_file():
            raise KeyError(member)
        return load_state(file)

    def __setitem__(self, member: Member, state: State) -> None:
        save_state(self._file(member), state)

    def __delitem__(self, member: Member) -> None:
        self._file(member).unlink()

    def __iter__(self) -> Iterator[Any]:
        return (file.stem for file in self._folder.glob("*.safetensors"))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def clear(self) -> None:
        shutil.rmtree(self._folder)

    def _file(self, member: Member) -> Path:
        return self._folder / f"{name_of(member)}.safetensors"


def keep_result(folder: Path, result: Any, file: str = RESULT_FILE) -> None:
    """Write what was found, as JSON."""
    table = without_infinities(result.plain())
    write_atomically(folder / file, json.dumps(table, indent=2).encode())


def keep_time(folder: Path, seconds: float, steps: int) -> float | None:
    """Keep what this search spent; the seconds that a step of one model took in all searches of the folder, if any."""
    file = folder / SPENT_FILE
    spent = {"seconds": 0.0, "steps": 0}
    if file.is_file():
        try:
            kept = json.loads(file.read_text(encoding="utf-8"))
            spent = {"seconds": float(kept["seconds"]), "steps": int(kept["steps"])}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"{file} is damaged ({type(error).__name__}: {error}). Delete it: times are lost."
            ) from error
    if steps:
        spent = {"seconds": spent["seconds"] + seconds, "steps": spent["steps"] + steps}
        write_atomically(file, json.dumps(spent).encode())
    return spent["seconds"] / spent["steps"] if spent["steps"] else None


def kept_results(runs: Path) -> list[dict[str, Any]]:
    """What every finished search in a folder of runs found."""
    return _kept(runs, f"{PREFIX}*/{RESULT_FILE}")


def keep_check(runs: Path, check: Any, identities: list[str]) -> None:
    """Write an elbow check beside the runs that it is of."""
    folder = runs / f"{CHECK_PREFIX}{hash_of(sorted(identities))}"
    make_folder(folder)
    keep_result(folder, check, CHECK_FILE)


def kept_checks(runs: Path) -> list[dict[str, Any]]:
    """What every elbow check in a folder of runs found."""
    return _kept(runs, f"{CHECK_PREFIX}*/{CHECK_FILE}")


def _kept(runs: Path, pattern: str) -> list[dict[str, Any]]:
    found = []
    for file in sorted(runs.glob(pattern)):
        try:
            found.append(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise RunError(f"{file} is damaged ({error}). Delete its folder to search again.") from error
    return found
