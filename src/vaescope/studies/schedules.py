"""Schedules of objectives in steps, which a shorter training passes through in its share of the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from vaescope.objectives import OBJECTIVES
from vaescope.studies.results import JsonTable

SCHEDULES = ("steps", "warm_up")  # options of objectives that count steps
OBJECTIVE = "objective"


def shortened_objective(table: Mapping[str, Any], share: float) -> JsonTable:
    """An objective's table with the share of its schedules; its defaults are cut too, but not those that are off."""
    defaults = {one.name: one.default for one in fields(OBJECTIVES[table["name"]])}
    whole = {name: table.get(name, defaults[name]) for name in SCHEDULES if name in defaults}
    return {**table, **{name: _shortened(steps, share) for name, steps in whole.items() if steps}}


def shortened_grid(grid: Mapping[str, Sequence[Any]], share: float) -> dict[str, Sequence[Any]]:
    """A sweep's grid with the share of the schedules that it varies."""
    made = dict(grid)
    for name in SCHEDULES:
        key = f"{OBJECTIVE}.{name}"
        if key in made:
            made[key] = [_shortened(steps, share) for steps in made[key]]
    if OBJECTIVE in made:
        made[OBJECTIVE] = [shortened_objective(one, share) for one in made[OBJECTIVE]]
    return made


def _shortened(steps: float, share: float) -> float:
    return max(1.0, share * steps) if steps else steps
