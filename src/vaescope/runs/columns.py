"""The settings of a run as flat columns, by the names that a sweep's grid has for them, and which a listing shows.

Nothing here loads torch: listings of thousands of runs are made of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Row = dict[str, Any]

PARTS = ("net", "posterior", "prior", "likelihood")
NAMED = ("posterior", "prior", "optimiser")  # the parts whose names are no columns of every row
# How often rows are written follows from the steps and changes no model: a listing never shows it by itself.
PACES = ("log_every", "evaluate_every", "monitor_every")
COUNTS = ("precision", "evaluation_items", "monitor_items")
OTHERS = (*NAMED, *COUNTS, "initialisation", "held_out", "split_seed")
SCHEDULES = ("warm_up", "free_bits")  # as in objectives.strengths, which loads torch; a test compares them
STEPS = "steps"  # of training, in a row; an objective may have its own


def settings_of(record: Mapping[str, Any]) -> Row:
    """Every setting of a run, from the content of its run.json, that no other column of its row has."""
    configuration = record["configuration"]
    architecture, plan, split = (configuration[name] for name in ("architecture", "plan", "split"))
    objective = configuration["member"]["objective"]
    strengths = strengths_of(objective)
    parts = {
        "data": record.get("source"),
        **{name: architecture[name] for name in ("model", *PARTS)},
        "optimiser": plan["optimiser"],
        "objective": {name: value for name, value in objective.items() if name not in (*strengths, *SCHEDULES)},
    }
    found = {
        **{name: name_in(parts[name]) for name in NAMED},
        "initialisation": architecture["initialisation"],
        **{name: plan[name] for name in (*COUNTS, *PACES)},
        "held_out": split["held_out"],
        "split_seed": split["seed"],
        **{f"{part}.{option}": _cell(value) for part, table in parts.items() for option, value in _options(table)},
    }
    return {name: value for name, value in found.items() if value is not None}


def strengths_of(objective: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of an objective that are columns, its schedules last."""
    names = sorted(objective, key=lambda name: name in SCHEDULES)
    return {name: objective[name] for name in names if type(objective[name]) in (int, float) and name != STEPS}


def name_in(part: Any) -> Any:
    """The name of a part, which is a name itself, or a table of it and of options."""
    return part["name"] if isinstance(part, Mapping) else part


def drop_constant_settings(rows: Sequence[Row]) -> list[Row]:
    """The rows without the settings in which those that have them do not differ, and schedules that all have off."""
    known: dict[str, set[Any]] = {}
    for row in rows:
        for name, value in row.items():
            if name in (*OTHERS, *SCHEDULES) or "." in name:
                known.setdefault(name, set()).add(value)
    alike = {name for name, values in known.items() if len(values) == 1}
    quiet = {*PACES, *(name for name in alike if name not in SCHEDULES or known[name] == {0})}
    return [{name: value for name, value in row.items() if name not in quiet} for row in rows]


def _options(part: Any) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in part.items() if name != "name") if isinstance(part, Mapping) else iter(())


def _cell(value: Any) -> Any:
    """Lists as the text that a file has for them."""
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value
