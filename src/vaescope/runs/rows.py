"""One flat row for each run: its settings, named as in the grid of a sweep, last values and measurements.

Rows of finished runs are kept in files. Nothing here loads torch: of thousands of runs, only those files are read.
"""

from __future__ import annotations

import json
import os
import stat
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vaescope.errors import DamagedRunWarning, RunError, unreadable
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
from vaescope.runs.sealed import DAMAGE, naming, read_sealed
from vaescope.runs.type_counts import TypeCounts, with_labelled_types, with_measured

Row = Table

ARCHITECTURE_PARTS = ("model", "net", "posterior", "prior", "likelihood")
NAME_COLUMNS = ("posterior", "prior", "optimiser")  # parts whose names a listing shows only where runs differ
# How often rows are written follows from the steps and changes no model: a listing never shows it by itself.
INTERVALS = ("log_every", "evaluate_every", "monitor_every")
PLAN_COLUMNS = ("precision", "evaluation_items", "monitor_items")
OPTIONAL_COLUMNS = (*NAME_COLUMNS, *PLAN_COLUMNS, "initialisation", "held_out", "split_seed")
SCHEDULES = ("warm_up", "free_bits")  # as in objectives.objective, which loads torch; a test compares them
STEPS = "steps"  # of training; an objective may have an option of the same name
ROW_VERSION = 2  # of kept rows; raised when a column is added
TRIES, PAUSE_SECONDS = 5, 0.1  # another process may be writing or deleting the run
SETTLED_SECONDS = 2.0  # after its last change, no other process is writing a run


@dataclass(frozen=True)
class Listing:
    """The rows of the runs of a folder, by run, and what is wrong with runs that have none."""

    rows: dict[Path, Row]
    problems: dict[Path, RunError]

    def warn(self) -> None:
        """Name every run that is left out."""
        for problem in self.problems.values():
            warnings.warn(f"{problem} The run is left out.", DamagedRunWarning, stacklevel=3)


def run_folders(folder: Path) -> list[Path]:
    """The folders below this one that hold a run, by name; those that cannot be looked into are included."""
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise unreadable(folder, error) from error
    # Joined as text: this is done for thousands.
    return [folder / name for name in names if may_hold_run(f"{folder}/{name}")]


def may_hold_run(path: str | Path) -> bool:
    """Whether a folder has a run.json, or cannot be looked into, which is said when it is read."""
    try:
        return stat.S_ISREG(os.stat(f"{path}/{RUN_FILE}").st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a name may be one that no file can have
        return False
    except OSError:
        return True


def read_rows(folder: Path) -> Listing:
    """The rows of all runs in a folder, with every setting, by the names of their folders; bad runs hide no others."""
    return _read(run_folders(folder))


def read_row(path: Path) -> Row | None:
    """All settings of a run, the last values of its history, and its measurements; None if the run is gone.

    A measurement replaces a value of the history that has the same name; the final count of types stays.
    """
    found = _read([path])
    if path in found.problems:
        raise found.problems[path]
    return found.rows.get(path)


def _read(paths: list[Path]) -> Listing:
    found: dict[Path, Row | None] = {}
    problems: dict[Path, RunError] = {}
    waiting = paths
    for left in reversed(range(TRIES)):
        for path in waiting:
            problems.pop(path, None)
            try:
                found[path] = _row(path)
            except FileNotFoundError:  # the run is gone
                found[path] = None
            except RunError as error:
                problems[path] = error
        # What looks damaged may be a folder that another process is deleting or training again.
        waiting = [path for path in problems if _is_changing(path)]
        if not waiting or not left:
            break
        time.sleep(PAUSE_SECONDS)
    return Listing({path: row for path in paths if (row := found.get(path)) is not None}, problems)


def _is_changing(path: Path) -> bool:
    """Whether something was written to a run's folder a moment ago, or it is gone."""
    newest = time.time() - SETTLED_SECONDS
    try:
        return any(os.stat(file).st_mtime > newest for file in (path, *path.iterdir()))
    except FileNotFoundError:
        return True
    except OSError:
        return False


def kept_row(row: Row) -> Table:
    """The content of the file that keeps the row of a finished run."""
    return {"version": ROW_VERSION, "row": row}


def _row(path: Path) -> Row | None:
    row = _read_kept(path)
    if row is None and (row := _computed(path)) is None:
        return None
    measured = measured_values(path)
    whole = with_measured(with_labelled_types(row), measured, measured.get("measure.items"))
    with naming(path / RESULTS_FILE):
        _check_names(whole)
    return whole


def _read_kept(path: Path) -> Row | None:
    """The row that was kept when the run finished; None if it is damaged, older than the run, or of a newer version."""
    try:
        written = os.stat(f"{path}/{SUMMARY_FILE}").st_mtime_ns
        if os.stat(f"{path}/{RUN_FILE}").st_mtime_ns > written:
            return None
        with suppress(FileNotFoundError):  # a pruned run has no history
            if os.stat(f"{path}/{HISTORY_FILE}").st_mtime_ns > written:
                return None
        found, has_checksum = read_sealed(f"{path}/{SUMMARY_FILE}")
        content: Table = found
        # Version 0.1 of vaescope kept the row itself, in its first releases without some of the settings.
        version, row = (content["version"], content["row"]) if "row" in content else (0, content)
        if version > ROW_VERSION or not (isinstance(row["id"], str) and row["status"] in (COMPLETE, FAILED)):
            return None
        if has_checksum:
            return dict(row)
        record = RunRecord.read(path / RUN_FILE)
        record.check_sealed(has_checksum)
        if version == 0:
            settings = summary_row(record, [])
            row = {**settings, **row, "model": settings["model"]}
        _check_names(row)
        _ = set(row.values()), json.dumps(row, ensure_ascii=False).encode()  # must be plain values, and encodable
        return dict(row)
    except (OSError, *DAMAGE, RunError):
        return None


def _check_names(row: Row) -> None:
    """Raise an error if the names of columns differ in their case alone: SQL does not tell them apart."""
    if len({name.lower() for name in row}) < len(row):
        raise ValueError("two values have names that differ in case only")


def _computed(path: Path) -> Row | None:
    """The row from run.json and the history; None if there is no run.json."""
    try:
        record = RunRecord.read(path / RUN_FILE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    history = Journal(path).rows(record.provenance.checksums.get(HISTORY_FILE))
    record.check_history(path / HISTORY_FILE, history)
    with naming(path / RUN_FILE):
        row = summary_row(record, history)
    if not history and record.status == TRAINING and (ensemble := ensemble_of(path)):
        row["step"] = Journal(ensemble[0]).last_step()
    return row


def read_measurements(path: Path) -> Table:
    """The measurements of a run by name: the conditions ("asked") and the values of each."""
    file = path / RESULTS_FILE
    try:
        with naming(file, "Restore it from a backup, or move it elsewhere to measure the run again."):
            table, has_checksum = read_sealed(file)
            found: Table = table
            if has_checksum:
                return found
            for measured in found.values():
                _ = set(measured.get("asked", {}).values())  # must be a table of plain values
                for name, value in measured["values"].items():
                    if not isinstance(value, int | float | None):
                        raise TypeError(f"{name} is not a number")
            RunRecord.read(path / RUN_FILE).check_sealed(has_checksum)
            return found
    except (FileNotFoundError, NotADirectoryError):
        return {}


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
    types = TypeCounts.of(record, history)
    row = {
        "id": record.id,
        "status": record.status,
        "data": data["name"],
        "items": data["items"],
        "model": model_in(architecture),
        **{part: name_in(architecture[part]) for part in ("net", "likelihood") if architecture.get(part) is not None},
        "latents": member["latents"],
        "objective": member["objective"]["name"],
        **strengths_of(member["objective"]),
        "seed": member["seed"],
        **({} if pruned is None else {"pruned_from": pruned["run"]}),
        **({"started_from": configuration["start"]} if "start" in configuration else {}),
        "learning_rate": member["learning_rate"],
        "batch": plan["batch"],
        **settings_of(record),
        "step": history[-1]["step"] if history else 0,
        "steps": plan["steps"],
        **({} if types is None else types.columns()),
        **{
            f"{split}_{name}": value
            for split in ("train", "test")
            for name, value in last.get(split, {}).items()
            if name not in ("step", "split")
        },
    }
    return {name: encodable(value) for name, value in row.items()}


def encodable(value: object) -> object:
    """The value; in text, as in names of files, bytes that are not UTF-8 are written as \\udc.. ."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def variants_in(configuration: Mapping[str, Table]) -> dict[str, str]:
    """Kind -> name of every registered variant in the configuration of a run."""
    return {kind: name_in(part) for kind, part in _parts_in(configuration).items()}


def _parts_in(configuration: Mapping[str, Table]) -> dict[str, str | Table]:
    """Kind -> variant, as a name or a table of a name and options."""
    architecture = {part: value for part in ARCHITECTURE_PARTS if (value := configuration["architecture"].get(part))}
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
        **{kind: names[kind] for kind in NAME_COLUMNS if kind in names},
        "initialisation": configuration["architecture"].get("initialisation"),
        **{name: plan[name] for name in (*PLAN_COLUMNS, *INTERVALS)},
        "held_out": split["held_out"],
        "split_seed": split["seed"],
        "overcomplete": configuration["architecture"].get("overcomplete"),
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


def model_in(architecture: Table) -> str:
    """The name of the model of an architecture: registered, or that of a factory, which may have none."""
    factory = architecture.get("factory")
    return name_in(architecture["model"]) if factory is None else factory["name"] or "factory"


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
