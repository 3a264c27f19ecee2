"""One flat row for each run: its settings, named as in the grid of a sweep, last values and measurements.

Rows of finished runs are kept in files. Nothing here loads torch: of thousands of runs, only those files are read.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from vaescope.errors import RunError
from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.runs.folders import ensemble_of
from vaescope.runs.journal import Journal
from vaescope.runs.record import (
    COMPLETE,
    FAILED,
    HISTORY_FILE,
    RESULTS_FILE,
    RUN_FILE,
    SUMMARY_FILE,
    TRAINING,
    RunRecord,
    Table,
)

Row = Table

ARCHITECTURE_PARTS = ("model", "net", "posterior", "prior", "likelihood")
NAME_COLUMNS = ("posterior", "prior", "optimiser")  # parts whose names a listing shows only where runs differ
# How often rows are written follows from the steps and changes no model: a listing never shows it by itself.
INTERVALS = ("log_every", "evaluate_every", "monitor_every")
PLAN_COLUMNS = ("precision", "evaluation_items", "monitor_items")
OPTIONAL_COLUMNS = (*NAME_COLUMNS, *PLAN_COLUMNS, "initialisation", "held_out", "split_seed")
SCHEDULES = ("warm_up", "free_bits")  # as in objectives.objective, which loads torch; a test compares them
STEPS = "steps"  # of training; an objective may have an option of the same name
ROW_VERSION = 1  # of kept rows; raised when a column is added
TRIES, PAUSE_SECONDS = 5, 0.1  # another process may be writing or deleting the run
DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError)


def run_folders(folder: Path) -> list[Path]:
    """The folders below this one that hold a run, by name."""
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    # Joined as text: this is done for thousands.
    return [folder / name for name in names if os.path.isfile(f"{folder}/{name}/{RUN_FILE}")]


def read_rows(folder: Path) -> list[Row]:
    """The rows of all runs in a folder, with every setting, by the names of their folders."""
    rows = (read_row(path) for path in run_folders(folder))
    return [row for row in rows if row is not None]


def read_row(path: Path) -> Row | None:
    """All settings of a run, the last values of its history, and its measurements; None if the run is gone.

    A measurement replaces a value of the history that has the same name, such as the types of latents.
    """
    for _ in range(TRIES - 1):
        with suppress(RunError):
            return _row(path)
        # What looks damaged may be a folder that another process is deleting or training again.
        time.sleep(PAUSE_SECONDS)
    return _row(path)


def kept_row(row: Row) -> Table:
    """The content of the file that keeps the row of a finished run."""
    return {"version": ROW_VERSION, "row": row}


def _row(path: Path) -> Row | None:
    row = _read_kept(path)
    row = _computed(path) if row is None else row
    return None if row is None else {**row, **measured_values(path)}


def _read_kept(path: Path) -> Row | None:
    """The row that was kept when the run finished; None if it is damaged, older than the run, or of a newer version."""
    try:
        written = os.stat(f"{path}/{SUMMARY_FILE}").st_mtime_ns
        if os.stat(f"{path}/{RUN_FILE}").st_mtime_ns > written:
            return None
        with suppress(FileNotFoundError):  # a pruned run has no history
            if os.stat(f"{path}/{HISTORY_FILE}").st_mtime_ns > written:
                return None
        content = _read_json(f"{path}/{SUMMARY_FILE}")
        # Version 0.1 of vaescope kept the row itself, in its first releases without some of the settings.
        version, row = (content["version"], content["row"]) if "row" in content else (0, content)
        if version > ROW_VERSION or not (isinstance(row["id"], str) and row["status"] in (COMPLETE, FAILED)):
            return None
        if version == 0:
            settings = summary_row(RunRecord.read(path / RUN_FILE), [])
            return {**settings, **row, "model": settings["model"]}
        return row
    except (*DAMAGE, RunError):
        return None


def _read_json(file: str) -> Table:
    with open(file, "rb") as opened:
        content: Table = json.loads(opened.read())
        return content


def _computed(path: Path) -> Row | None:
    """The row from run.json and the history; None if there is no run.json."""
    if not os.path.isfile(f"{path}/{RUN_FILE}"):
        return None
    with suppress(*DAMAGE, RunError):
        record = RunRecord.read(path / RUN_FILE)
        history = Journal(path).rows()
        if record.has_full_history(history):
            row = summary_row(record, history)
            if not history and record.status == TRAINING and (ensemble := ensemble_of(path)):
                row["step"] = Journal(ensemble[0]).last_step()
            return row
    # Run checks everything, for which it loads torch, and says what is wrong.
    from vaescope.runs.run import Run

    run = Run.open(path)
    return summary_row(run.record, run.history)


def read_measurements(path: Path) -> Table:
    """The measurements of a run by name: the conditions ("asked") and the values of each."""
    file = path / RESULTS_FILE
    try:
        found = _read_json(f"{file}")
        for measured in found.values():
            _ = set(measured.get("asked", {}).values())  # must be a table of plain values
            for name, value in measured["values"].items():
                if isinstance(value, dict | list):
                    raise TypeError(f"{name} is not a number")
    except FileNotFoundError:
        return {}
    except DAMAGE as error:
        raise RunError(
            f"{file} is damaged ({type(error).__name__}: {error}). Restore it from a backup, or move it elsewhere to "
            "measure the run again."
        ) from error
    return found


def measured_values(path: Path) -> Row:
    """The values of all measurements of a run, by their flat names, and their conditions."""
    found = read_measurements(path)
    values = {name: value for measured in found.values() for name, value in measured["values"].items()}
    return values | _conditions({name: measured["asked"] for name, measured in found.items() if "asked" in measured})


def _conditions(asked: Mapping[str, Table]) -> Row:
    """Items, seed and excluded latents of the measurements, as columns; where metrics differ, with their names."""
    found: Row = {}
    for option in dict.fromkeys(option for one in asked.values() for option in one):
        values = {name: one.get(option) for name, one in asked.items()}
        differing = ", ".join(f"{name} {value}" for name, value in values.items())
        found[f"measure.{option}"] = differing if len(set(values.values())) > 1 else next(iter(values.values()))
    return {name: value for name, value in found.items() if value is not None}


def summary_row(record: RunRecord, history: Sequence[Row]) -> Row:
    """The row of a run, with every setting, from its record and its history."""
    configuration = record.configuration
    data, architecture, plan, member = (configuration[name] for name in ("data", "architecture", "plan", "member"))
    pruned, last = configuration.get("pruned"), {row["split"]: row for row in history}
    return {
        "id": record.id,
        "status": record.status,
        "data": data["name"],
        "items": data["items"],
        "model": name_in(architecture["model"]),
        "net": name_in(architecture["net"]),
        "likelihood": name_in(architecture["likelihood"]),
        "latents": member["latents"],
        "objective": member["objective"]["name"],
        **strengths_of(member["objective"]),
        "seed": member["seed"],
        **({} if pruned is None else {"pruned_from": pruned["run"]}),
        "learning_rate": member["learning_rate"],
        "batch": plan["batch"],
        **settings_of(record),
        "step": history[-1]["step"] if history else 0,
        "steps": plan["steps"],
        **{name: count for name, count in last.get("probe", {}).items() if name in VARIABLE_TYPES},
        **{
            f"{split}_{name}": value
            for split in ("train", "test")
            for name, value in last.get(split, {}).items()
            if name not in ("step", "split")
        },
    }


def variants_in(configuration: Mapping[str, Table]) -> dict[str, str]:
    """Kind -> name of every registered variant in the configuration of a run."""
    return {kind: name_in(part) for kind, part in _parts_in(configuration).items()}


def _parts_in(configuration: Mapping[str, Table]) -> dict[str, str | Table]:
    """Kind -> variant, as a name or a table of a name and options."""
    architecture = {part: configuration["architecture"][part] for part in ARCHITECTURE_PARTS}
    optimiser, objective = configuration["plan"]["optimiser"], configuration["member"]["objective"]
    return {**architecture, "optimiser": optimiser, "objective": objective}


def settings_of(record: RunRecord) -> Row:
    """Every setting of a run that no other column of its row has."""
    configuration = record.configuration
    plan, split, objective = configuration["plan"], configuration["split"], configuration["member"]["objective"]
    elsewhere = (*strengths_of(objective), *SCHEDULES)
    parts = {
        "data": record.provenance.source,
        **_parts_in(configuration),
        "objective": {name: value for name, value in objective.items() if name not in elsewhere},
    }
    names = variants_in(configuration)
    found = {
        **{kind: names[kind] for kind in NAME_COLUMNS},
        "initialisation": configuration["architecture"]["initialisation"],
        **{name: plan[name] for name in (*PLAN_COLUMNS, *INTERVALS)},
        "held_out": split["held_out"],
        "split_seed": split["seed"],
    }
    for part, table in parts.items():
        for option, value in table.items() if isinstance(table, Mapping) else ():
            if option != "name":
                # Lists and tables as JSON text.
                found[f"{part}.{option}"] = json.dumps(value) if isinstance(value, list | tuple | dict) else value
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
