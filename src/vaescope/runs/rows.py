"""One flat row for each run of a folder, quickly: kept beside finished runs, made of the files of the others.

Nothing here loads torch: of thousands of finished runs, only the files with their rows are read.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from vaescope.errors import RunError
from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.runs.columns import name_in, settings_of, strengths_of
from vaescope.runs.ensemble_folder import ensemble_of
from vaescope.runs.journal import Journal
from vaescope.runs.record import (
    COMPLETE,
    FAILED,
    HISTORY_FILE,
    RESULTS_FILE,
    RUN_FILE,
    SUMMARY_FILE,
    TRAINING,
    check_record,
    is_whole,
)

LATEST = "warm_up"  # a column of every row that came last to what is kept
TRIES, PAUSE = 5, 0.1  # seconds between them, in which another process can finish what it is writing or deleting
DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError)


def run_folders(folder: Path) -> list[Path]:
    """The folders below this one that hold a run, by name."""
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    # Joined as text: this is done for thousands.
    return [folder / name for name in names if os.path.isfile(f"{folder}/{name}/{RUN_FILE}")]


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of all runs below a folder, with every setting, by the names of their folders."""
    rows = (read_row(path) for path in run_folders(folder))
    return [row for row in rows if row is not None]


def read_row(path: Path) -> dict[str, Any] | None:
    """All of a run's settings, the last values of its history, and what was measured; None once the run is gone.

    Where a measurement has the name of a value of the history, as the types of latents do, it stands instead.
    """
    for _ in range(TRIES - 1):
        with suppress(RunError):
            return _row(path)
        # What looks damaged may be a folder that is just being deleted, or trained again.
        time.sleep(PAUSE)
    return _row(path)


def _row(path: Path) -> dict[str, Any] | None:
    row = _kept(path)
    row = _computed(path) if row is None else row
    return None if row is None else {**row, **measured_values(path)}


def _kept(path: Path) -> dict[str, Any] | None:
    """The row that was kept when the run finished, unless it is damaged or the run has changed since."""
    try:
        written = os.stat(f"{path}/{SUMMARY_FILE}").st_mtime_ns
        if os.stat(f"{path}/{RUN_FILE}").st_mtime_ns > written:
            return None
        with suppress(FileNotFoundError):  # a pruned run has no history
            if os.stat(f"{path}/{HISTORY_FILE}").st_mtime_ns > written:
                return None
        row = _read(f"{path}/{SUMMARY_FILE}")
        if not (isinstance(row["id"], str) and row["status"] in (COMPLETE, FAILED)):
            return None
        if LATEST in row:
            return row
        # An earlier version kept fewer settings, and a model with its options.
        settings = summary_row(_read(f"{path}/{RUN_FILE}"), [])
        return {**settings, **row, "model": settings["model"]}
    except DAMAGE:
        return None


def _read(file: str) -> Any:
    with open(file, "rb") as opened:
        return json.loads(opened.read())


def _computed(path: Path) -> dict[str, Any] | None:
    """The row made of run.json and the history; None where there is no run.json."""
    if not os.path.isfile(f"{path}/{RUN_FILE}"):
        return None
    with suppress(*DAMAGE, RunError):
        record = json.loads((path / RUN_FILE).read_bytes())
        check_record(record)
        history = Journal(path).rows()
        if is_whole(record, history):
            row = summary_row(record, history)
            if not history and record["status"] == TRAINING and (shared := ensemble_of(path)):
                row["step"] = Journal(shared[0]).last_step()
            return row
    # The reader that checks everything, and loads torch to do so, has the words for what is wrong.
    from vaescope.runs.run import Run

    run = Run.open(path)
    return summary_row(run.record, run.history)


def measured_values(path: Path) -> dict[str, Any]:
    """The values of all measurements of a run, by their flat names."""
    try:
        found = _read(f"{path}/{RESULTS_FILE}")
        values = {name: value for measure in found.values() for name, value in measure["values"].items()}
        values |= _asked({name: measure["asked"] for name, measure in found.items() if "asked" in measure})
        odd = next((name for name, value in values.items() if isinstance(value, dict | list)), None)
        if odd is not None:
            raise TypeError(f"{odd} is not a number")
    except FileNotFoundError:
        return {}
    except DAMAGE as error:
        raise RunError(
            f"{path / RESULTS_FILE} is damaged ({type(error).__name__}: {error}). Delete it to measure again."
        ) from error
    return values


def _asked(asked: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What measurements were asked to be of, as columns; where they differ, with the name of each."""
    found: dict[str, Any] = {}
    for option in dict.fromkeys(option for one in asked.values() for option in one):
        values = {name: one.get(option) for name, one in asked.items()}
        told = ", ".join(f"{name} {value}" for name, value in values.items())
        found[f"measure.{option}"] = told if len(set(values.values())) > 1 else next(iter(values.values()))
    return {name: value for name, value in found.items() if value is not None}


def summary_row(record: dict[str, Any], history: list[dict[str, Any]]) -> dict[str, Any]:
    """The row of a run, with every setting, from the content of its run.json and the rows of its history."""
    configuration = record["configuration"]
    data, architecture, plan, member = (configuration[name] for name in ("data", "architecture", "plan", "member"))
    pruned, last = configuration.get("pruned"), {row["split"]: row for row in history}
    return {
        "id": record["id"],
        "status": record["status"],
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
