"""`vaescope sweep`: train and measure every run of a grid that a file describes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from vaescope.sweeps.run import SweepPlan

SHOWN = 40  # rows that people see; files and --json have all
OPTION_OF = {"workers": "local", "address": "ray"}


def sweep(
    file: Annotated[
        str, typer.Argument(help="A .toml file: [data], [model], [objective], [training], [grid], [measure].")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan: runs, jobs, what is done, time, disk.")
    ] = False,
    engine: Annotated[str, typer.Option(help="local (this machine), or ray (a cluster).")] = "local",
    address: Annotated[str | None, typer.Option(help="Of a ray cluster: auto, or host:port.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes of the local engine; one for each core.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda; cuda where there is one when left out.")] = None,
    runs: Annotated[str, typer.Option(help="Folder that runs are kept in.")] = "runs",
    csv: Annotated[str | None, typer.Option(help="Write the table of all runs into this file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Train a grid of runs, measure each, and show the table. Stopped, the same command goes on."""
    from vaescope.cli.files import check_file, write_csv
    from vaescope.cli.tables import columns_of, print_json
    from vaescope.sweeps.run import plan_sweep, run_sweep
    from vaescope.sweeps.toml import read_sweep

    options = engine_options(engine, workers=workers, address=address)
    found = read_sweep(file)
    check_file(csv)
    if dry_run:
        _print_plan(plan_sweep(found, runs=runs, device=device), json)
        return
    rows = run_sweep(found, runs=runs, engine=engine, device=device, **options)
    if json:
        print_json(rows)
    else:
        _print_sweep(rows, runs)
    # At the end: a disk that is full by now keeps nobody from seeing what came out.
    if csv is not None:
        write_csv(rows, columns_of(rows), Path(csv))


def _print_plan(planned: SweepPlan, json: bool) -> None:
    from vaescope.cli.tables import print_json, print_rows

    rows = planned.rows()
    if json:
        print_json({"summary": planned.summary(), "jobs": rows})
        return
    print_rows(rows[:SHOWN], more="--json has all")
    if len(rows) > SHOWN:
        print(f"{len(rows) - SHOWN} more of {len(rows)} jobs: --json has all")
    print(planned.summary())


def _print_sweep(rows: list[dict[str, Any]], runs: str) -> None:
    """A table of the settings that vary and of what came of them, which runs failed, and how to ask further."""
    from vaescope.cli.run_tables import print_runs
    from vaescope.runs.record import FAILED

    print_runs(rows[:SHOWN], _told(rows, Path(runs)), Path(runs), "--csv writes all")
    more = f", {len(rows) - SHOWN} of them not shown" if len(rows) > SHOWN else ""
    failed = [row["id"] for row in rows if row["status"] == FAILED]
    if failed:
        print(f"{len(failed)} diverged, and say why in failure.json of their folders: {', '.join(failed)}")
    print(f'{len(rows)} runs{more}; ask them with `vaescope runs sql --runs {shlex.quote(runs)} "SELECT ..."`')


def _told(rows: list[dict[str, Any]], runs: Path) -> list[str]:
    """The columns that people see: what differs, and what was measured even where it is the same for all."""
    from vaescope.cli.run_tables import is_outcome, measured_names, varies
    from vaescope.cli.tables import columns_of

    names, measured = columns_of(rows), measured_names(rows, runs)
    # What was held out tells more than what was trained on, where anything was.
    hidden = "train_" if any(name.startswith("test_") for name in names) else "train_gradient_norm"
    told = {name for name in names if is_outcome(name, measured)} - {"status", "step"}
    return [
        name for name in names if name == "id" or ((name in told or varies(rows, name)) and not name.startswith(hidden))
    ]


def engine_options(name: str, **options: Any) -> dict[str, Any]:
    """The options that were given, which must be those of the engine."""
    from vaescope.cli.parts import given
    from vaescope.errors import ConfigurationError
    from vaescope.sweeps.engines import get_engine

    get_engine(name)
    for option in given(**options):
        if OPTION_OF[option] != name:
            raise ConfigurationError(
                f"--{option} is an option of --engine {OPTION_OF[option]}, got --engine {name}. Leave it out, or "
                "choose that engine."
            )
    return given(**options)
