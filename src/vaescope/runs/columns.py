"""The settings of a run as flat columns, named as in the grid of a sweep, and which of them a listing shows.

Nothing here loads torch: listings of thousands of runs use it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from vaescope.runs.record import RunRecord, Table

Row = Table

ARCHITECTURE_PARTS = ("model", "net", "posterior", "prior", "likelihood")
NAME_COLUMNS = ("posterior", "prior", "optimiser")  # parts whose names a listing shows only where runs differ
# How often rows are written follows from the steps and changes no model: a listing never shows it by itself.
INTERVALS = ("log_every", "evaluate_every", "monitor_every")
PLAN_COLUMNS = ("precision", "evaluation_items", "monitor_items")
OPTIONAL_COLUMNS = (*NAME_COLUMNS, *PLAN_COLUMNS, "initialisation", "held_out", "split_seed")
SCHEDULES = ("warm_up", "free_bits")  # as in objectives.objective, which loads torch; a test compares them
STEPS = "steps"  # of training; an objective may have an option of the same name


def variants_in(configuration: Mapping[str, Table]) -> dict[str, str]:
    """Kind -> name of every registered variant in the configuration of a run."""
    architecture = {part: name_in(configuration["architecture"][part]) for part in ARCHITECTURE_PARTS}
    optimiser, objective = configuration["plan"]["optimiser"], configuration["member"]["objective"]
    return {**architecture, "optimiser": name_in(optimiser), "objective": name_in(objective)}


def settings_of(record: RunRecord) -> Row:
    """Every setting of a run that no other column of its row has."""
    configuration = record.configuration
    architecture, plan, split = (configuration[name] for name in ("architecture", "plan", "split"))
    objective = configuration["member"]["objective"]
    strengths = strengths_of(objective)
    parts = {
        "data": record.provenance.source,
        **{name: architecture[name] for name in ARCHITECTURE_PARTS},
        "optimiser": plan["optimiser"],
        "objective": {name: value for name, value in objective.items() if name not in (*strengths, *SCHEDULES)},
    }
    found = {
        **{name: name_in(parts[name]) for name in NAME_COLUMNS},
        "initialisation": architecture["initialisation"],
        **{name: plan[name] for name in (*PLAN_COLUMNS, *INTERVALS)},
        "held_out": split["held_out"],
        "split_seed": split["seed"],
        **{f"{part}.{option}": _cell(value) for part, table in parts.items() for option, value in _options(table)},
    }
    return {name: value for name, value in found.items() if value is not None}


def strengths_of(objective: Table) -> dict[str, float]:
    """The numbers of an objective that are columns, schedules last."""
    names = sorted(objective, key=lambda name: name in SCHEDULES)
    return {name: objective[name] for name in names if type(objective[name]) in (int, float) and name != STEPS}


def name_in(part: str | Table) -> str:
    """The name of a part, which is a name or a table of a name and options."""
    return part["name"] if isinstance(part, Mapping) else part


def drop_constant_settings(rows: Sequence[Row]) -> list[Row]:
    """The rows without the settings that have one value in all rows, and without schedules that are off in all."""
    known: dict[str, set[object]] = {}
    for row in rows:
        for name, value in row.items():
            if name in (*OPTIONAL_COLUMNS, *SCHEDULES) or "." in name:
                known.setdefault(name, set()).add(value)
    constant = {name for name, values in known.items() if len(values) == 1}
    dropped = {*INTERVALS, *(name for name in constant if name not in SCHEDULES or known[name] == {0})}
    return [{name: value for name, value in row.items() if name not in dropped} for row in rows]


def _options(part: object) -> Iterator[tuple[str, object]]:
    return ((name, value) for name, value in part.items() if name != "name") if isinstance(part, Mapping) else iter(())


def _cell(value: object) -> object:
    """Lists and tables as JSON text."""
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value
