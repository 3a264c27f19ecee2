"""`vaescope sweep`: train and measure every run of a grid that a file describes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

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
    from vaescope.cli.parts import check_plot
    from vaescope.cli.tables import columns_of, print_json, print_rows, print_table
    from vaescope.runs.record import FAILED
    from vaescope.runs.sweep_file import read_sweep
    from vaescope.runs.sweeping import plan, run_sweep
    from vaescope.showing import csv_text

    options = engine_options(engine, workers=workers, address=address)
    found = read_sweep(file)
    check_plot(csv)
    _check_file(csv)
    if dry_run:
        planned = plan(found, runs=runs, device=device)
        if json:
            print_json({"summary": planned.summary(), "jobs": planned.rows()})
            return
        print_rows(planned.rows()[:SHOWN])
        print(planned.summary())
        return
    rows = run_sweep(found, runs=runs, by=engine, device=device, **options)
    if csv is not None:
        Path(csv).write_text(csv_text(rows), encoding="utf-8")
    if json:
        print_json(rows)
        return
    varying = [
        "id",
        *(name for name in columns_of(rows) if name != "id" and len({str(row.get(name)) for row in rows}) > 1),
    ]
    names = [name for name in varying if not name.startswith("train_")]
    print_table(names, [[row.get(name) for name in names] for row in rows[:SHOWN]])
    more = f", {len(rows) - SHOWN} of them not shown" if len(rows) > SHOWN else ""
    failed = [row["id"] for row in rows if row["status"] == FAILED]
    if failed:
        print(f"{len(failed)} diverged, and say why in failure.json of their folders: {', '.join(failed)}")
    print(f'{len(rows)} runs{more}; ask them with `vaescope runs sql --runs {shlex.quote(runs)} "SELECT ..."`')


def engine_options(name: str, **options: Any) -> dict[str, Any]:
    """The options that were given, which must be those of the engine."""
    from vaescope.cli.parts import given
    from vaescope.errors import ConfigurationError
    from vaescope.runs.engines import engine

    engine(name)
    for option in given(**options):
        if OPTION_OF[option] != name:
            raise ConfigurationError(
                f"--{option} is an option of --engine {OPTION_OF[option]}, got --engine {name}. Leave it out, or "
                "choose that engine."
            )
    return given(**options)


def _check_file(path: str | None) -> None:
    from vaescope.errors import ConfigurationError

    if path is not None and Path(path).is_dir():
        raise ConfigurationError(f"{path!r} must be a file that can be written, it is a folder. Name a file in it.")
