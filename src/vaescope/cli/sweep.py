"""`vaescope sweep`: train and measure a grid of runs from a file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from vaescope.cli import options
from vaescope.cli.output import (
    Row,
    already_trained,
    check_file,
    is_outcome,
    measured_names,
    print_json,
    print_rows,
    print_runs,
    varies,
    write_csv,
)
from vaescope.errors import ConfigurationError
from vaescope.progress import duration
from vaescope.tables import columns_of
from vaescope.terminal import print_line

if TYPE_CHECKING:
    from vaescope.sweeps.run import SweepPlan

MAX_PRINTED_ROWS = 40  # files and --json have all
ENGINE_OF_OPTION = {"workers": "local", "address": "ray"}


def sweep(
    file: Annotated[str, Argument(help="A .toml file: [data], [model], [objective], [training], [grid], [measure].")],
    dry_run: Annotated[
        bool, Option("--dry-run", help="Only show the plan: runs, jobs, finished work, time, disk space.")
    ] = False,
    engine: options.Engine = "local",
    address: options.Address = None,
    workers: Annotated[
        int | None, Option(help="Number of processes of the local engine; default: one per core.")
    ] = None,
    device: options.Device = None,
    runs: options.Runs = "runs",
    tracker: options.Tracker = None,
    csv: Annotated[str | None, Option(help="Write the table of all runs to this file.")] = None,
    json: options.Json = False,
) -> None:
    """Train and measure a grid of runs, and show the results. Reuses finished runs and resumes interrupted ones."""
    from vaescope.sweeps.run import plan_sweep, run_sweep
    from vaescope.sweeps.toml import read_sweep

    engine_settings = engine_options(engine, workers=workers, address=address)
    found = read_sweep(file)
    check_file(csv)
    if dry_run:
        _print_plan(plan_sweep(found, runs=runs, device=device), json)
        return
    new: set[str] = set()
    rows = run_sweep(
        found,
        runs=runs,
        engine=engine,
        device=device,
        tracker=tracker,
        on_row=lambda row: new.add(row.run),
        **engine_settings,
    )
    if json:
        print_json([{**row, "already_trained": _was_trained(row, new)} for row in rows])
    else:
        _print_sweep(rows, runs, new)
    # Last, so that a full disk does not hide the results.
    if csv is not None:
        write_csv(rows, columns_of(rows), Path(csv))


def _print_plan(planned: SweepPlan, json: bool) -> None:
    rows = planned.rows()
    if json:
        print_json({"summary": planned.summary(), "jobs": rows})
        return
    shown = [
        {**{name: value for name, value in row.items() if name != "seconds"}, "time": _about(row["seconds"])}
        for row in rows[:MAX_PRINTED_ROWS]
    ]
    print_rows(shown, first=("job", "runs", "state", "time"), more="--json has all")
    if len(rows) > MAX_PRINTED_ROWS:
        print_line(f"{len(rows) - MAX_PRINTED_ROWS} more of {len(rows)} jobs: --json has all")
    print_line(planned.summary())


def _about(seconds: float | None) -> str:
    return "" if seconds is None else f"about {duration(seconds)}"


def _was_trained(row: Row, new: set[str]) -> bool:
    """Whether a run was trained before this sweep; `new` are the ids of the runs that this sweep trained."""
    from vaescope.runs.record import COMPLETE

    return row["status"] == COMPLETE and row["id"] not in new


def _print_sweep(rows: list[Row], runs: str, new: set[str]) -> None:
    """Print the varying settings and the results, the failed and the reused runs, and how to query further."""
    from vaescope.runs.record import FAILED

    print_runs(rows[:MAX_PRINTED_ROWS], _printed_columns(rows, Path(runs)), Path(runs), "--csv writes all")
    more = f", {len(rows) - MAX_PRINTED_ROWS} of them not shown" if len(rows) > MAX_PRINTED_ROWS else ""
    failed = [str(row["id"]) for row in rows if row["status"] == FAILED]
    if failed:
        print_line(f"{len(failed)} failed; see failure.json in their folders: {', '.join(failed)}")
    reused = sum(_was_trained(row, new) for row in rows)
    if reused:
        print_line(already_trained(reused, len(rows)))
    print_line(f'{len(rows)} runs{more}; query them with `vaescope runs sql --runs {shlex.quote(runs)} "SELECT ..."`')


def _printed_columns(rows: list[Row], runs: Path) -> list[str]:
    """The columns to print: settings that vary and all measurements."""
    names, measured = columns_of(rows), measured_names(rows, runs)
    # Values on held-out items are more informative than those on training items.
    hidden = "train_" if any(name.startswith("test_") for name in names) else "train_gradient_norm"
    results = {name for name in names if is_outcome(name, measured)} - {"status", "step"}
    shown = [name for name in names if not name.startswith(hidden)]
    return [name for name in shown if name == "id" or name in results or varies(rows, name)]


def engine_options(name: str, *, workers: int | None = None, address: str | None = None) -> dict[str, Any]:
    """The given options; options of another engine are an error."""
    from vaescope.sweeps.engines import get_engine

    get_engine(name)
    given = {key: value for key, value in (("workers", workers), ("address", address)) if value is not None}
    for option in given:
        if ENGINE_OF_OPTION[option] != name:
            raise ConfigurationError(
                f"--{option} needs --engine {ENGINE_OF_OPTION[option]}, got --engine {name}. Remove --{option}, or "
                "choose that engine."
            )
    return given
