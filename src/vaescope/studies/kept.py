"""What is known about every study without running it: its cost on one H200, and the verdicts of the kept results.

`kept.json` is made from plans and results by `python -m vaescope.studies.pages.keep docs/studies`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from vaescope.data import DATASETS
from vaescope.studies.claims import UNTESTED
from vaescope.studies.results import JsonTable

KEPT, NOT_TESTED, NO_DATA = "results kept", UNTESTED, "data not found"
FILE = "kept.json"


@dataclass(frozen=True)
class Cost:
    """Minutes of a command on one H200, at the measured time of a step; without the data sets that were absent.

    None if all of its data were absent.
    """

    minutes: float | None
    absent: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.minutes is None:
            return f"needs {', '.join(self.absent)}, which could not be had here"
        without = f", without {', '.join(self.absent)}" if self.absent else ""
        time = f"about {minutes_text(self.minutes)} on an H200" if self.minutes else "trains nothing"
        return f"{time}{without}"


def command_in_full(study: str) -> str:
    """The command that runs a study as published."""
    return f"vaescope reproduce {study} --scale paper"


def cost_of(command: str) -> Cost | None:
    """What a command costs; None where it was not planned."""
    table = _table()["commands"].get(command)
    return None if table is None else Cost(table["minutes"], tuple(table["absent"]))


def verdicts_of(study: str) -> dict[str, int]:
    """How many claims of a study have each verdict."""
    return dict(_table()["verdicts"].get(study, {}))


def state_of(study: str) -> str:
    """Whether results test a claim, could test one, or data are missing to."""
    if set(verdicts_of(study)) - {UNTESTED}:
        return KEPT
    cost = cost_of(command_in_full(study))
    missing = cost is not None and cost.minutes is None and not any(DATASETS[name].locate() for name in cost.absent)
    return NO_DATA if missing else NOT_TESTED


def how_to_test(study: str) -> str:
    """The command that tests a study's claims, and its cost, as a sentence."""
    command = command_in_full(study)
    cost = cost_of(command)
    return f"To test: `{command}`{f' ({cost})' if cost else ''}."


def minutes_text(minutes: float) -> str:
    """A time in minutes, or in hours beyond three."""
    if minutes >= 180:
        return f"{minutes / 60:.0f} hours"
    return f"{minutes:.0f} minutes" if minutes >= 2 else f"{minutes:.1f} minutes"


@cache
def _table() -> Mapping[str, JsonTable]:
    found: Mapping[str, JsonTable] = json.loads(files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
    return found
