"""`vaescope reproduce`: a table or figure of the literature from runs to numbers beside the published ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from vaescope.studies import Reproduction

SHOWN = 40  # rows that people see; files and --json have all


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Studies by name; --list shows them.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="Name every study, its source and its question.")] = False,
    scale: Annotated[str, typer.Option(help="quick (seconds on a CPU), or paper (as published).")] = "quick",
    seeds: Annotated[int | None, typer.Option(help="How many, in place of the study's own number.")] = None,
    share: Annotated[
        list[str] | None,
        typer.Option(help="How much of the study's training is done: 0.1, or NAME=0.1 for each set of data."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help="Only this set of data, which files are then named by; can be given again."),
    ] = None,
    runs: Annotated[str, typer.Option(help="Folder that runs are kept in.")] = "runs",
    output: Annotated[str, typer.Option("--output", "-o", help="Folder to write NAME.html, .csv and .json in.")] = (
        "studies"
    ),
    device: Annotated[str | None, typer.Option(help="cpu, cuda; cuda where there is one when left out.")] = None,
    engine: Annotated[str, typer.Option(help="local (this machine), or ray (a cluster).")] = "local",
    address: Annotated[str | None, typer.Option(help="Of a ray cluster: auto, or host:port.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Train what is missing of a study, measure, and set our numbers beside the published ones."""
    from vaescope.cli.sweep import engine_options
    from vaescope.cli.tables import print_json
    from vaescope.errors import ConfigurationError
    from vaescope.registry import lookup
    from vaescope.reporting.studies import make_output, write_study
    from vaescope.runs.options import choose_device
    from vaescope.studies import STUDIES, Scale
    from vaescope.studies import reproduce as reproduce_study

    if list_all:
        _print_list(json)
        return
    if not names:
        raise ConfigurationError("name a study to reproduce, or ask for all names with --list.")
    # What would fail at the end, after hours of training, is refused at the beginning.
    for name in names:
        lookup(STUDIES, name, "study")
    options: dict[str, Any] = {
        "seeds": seeds,
        "share": _shares(share or []),
        "data": tuple(data or ()),
        "runs": Path(runs),
        "device": choose_device(device),
        "by": engine,
        "options": engine_options(engine, address=address),
    }
    Scale(scale, **options)
    make_output(output)
    told: list[dict[str, Any]] = []
    try:
        for name in names:
            found = reproduce_study(name, scale, **options)
            files = {kind: str(path) for kind, path in write_study(found, output).items()}
            told.append({**found.plain(), "files": files})
            if not json:
                _print_study(found, files)
    finally:
        # A study that refuses, or is stopped, takes nothing away from those before it.
        if json and told:
            print_json(told)


def _shares(given: list[str]) -> float | dict[str, float]:
    """One number for all data, or one for each by name."""
    from vaescope.errors import ConfigurationError

    must = "--share must be one number such as 0.1, or one for each set of data as NAME=0.1"
    try:
        if len(given) == 1 and "=" not in given[0]:
            return float(given[0])
        pairs = [(name, float(value)) for name, _, value in (text.rpartition("=") for text in given)]
    except ValueError as error:
        raise ConfigurationError(f"{must}, got {given}.") from error
    names = [name for name, _ in pairs]
    if "" in names or len(set(names)) < len(names):
        raise ConfigurationError(f"{must}, got {given}.")
    return dict(pairs) or 1.0


def _print_list(json: bool) -> None:
    from vaescope.cli.tables import print_json, print_table
    from vaescope.studies import STUDIES

    rows = [{"name": study.name, "source": study.source, "question": study.question} for study in STUDIES.values()]
    if json:
        print_json(rows)
        return
    print_table(["name", "source", "question"], [list(row.values()) for row in rows])


def _print_study(found: Reproduction, files: dict[str, str]) -> None:
    from vaescope.cli.tables import columns_of, print_table
    from vaescope.reporting.studies import told_rows

    rows = told_rows(found.rows())
    names = columns_of(rows)
    if rows:
        print_table(names, [[row.get(name) for name in names] for row in rows[:SHOWN]], title=found.study.name)
    if len(rows) > SHOWN:
        print(f"{len(rows) - SHOWN} more rows are in {files['csv']}")
    print(f"{found.summary()}.")
    for note in found.findings.notes:
        print(f"note: {note}")
    print(f"written: {', '.join(files.values())}")
