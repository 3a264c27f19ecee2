"""`vaescope runs`: list the runs of a folder, show one, or ask them questions in SQL."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from vaescope.errors import ConfigurationError, RunError

SHOWN = 40  # runs that people see unless they ask for more
HIDDEN = ("items", "likelihood", "batch", "train_gradient_norm")  # from people who do not ask for them

app = typer.Typer(
    help="List runs, show one (`show ID`), or query all of them (`sql QUERY`).", invoke_without_command=True
)

Folder = Annotated[str, typer.Option("--runs", help="Folder that runs are kept in.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]

Write = Callable[[list[dict[str, Any]], list[str], Path], None]


@app.callback()
def runs(
    context: typer.Context,
    folder: Folder = "runs",
    where: Annotated[
        list[str] | None, typer.Option(help="COLUMN=VALUE, or several values separated by commas; may be repeated.")
    ] = None,
    sort: Annotated[str | None, typer.Option(help="Column to sort by; -COLUMN for the largest first.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help=f"How many runs at most; a table has {SHOWN}.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every run.")] = False,
    columns: Annotated[str | None, typer.Option(help="Columns, separated by commas.")] = None,
    csv: Annotated[str | None, typer.Option(metavar="FILE", help="Write the runs to a CSV file.")] = None,
    parquet: Annotated[str | None, typer.Option(metavar="FILE", help="Write the runs to a Parquet file.")] = None,
    json: Json = False,
) -> None:
    if context.invoked_subcommand is not None:
        listing = {"where": where, "sort": sort, "limit": limit, "all": everything, "columns": columns}
        _refuse({**listing, "csv": csv, "parquet": parquet}, context.invoked_subcommand)
        # What was said before the name of the subcommand holds for it, too.
        context.default_map = {context.invoked_subcommand: {"folder": folder, "json": json}}
        return
    from vaescope.cli.tables import columns_of, print_json
    from vaescope.runs.columns import drop_constant_settings
    from vaescope.runs.listing import check_columns, chosen
    from vaescope.runs.rows import read_rows

    if everything and limit is not None:
        raise ConfigurationError("--all and --limit exclude each other. Leave one of them out.")
    files = _files(csv, parquet)
    rows = read_rows(Path(folder))
    found = chosen(rows, _conditions(where or []), sort)
    names = columns_of(drop_constant_settings(found[:limit] or rows)) if columns is None else _names(columns)
    check_columns(rows, names, "--columns")
    if files and not names:
        raise RunError(f"there must be at least one run in {folder} to write, there is none. Fit one first.")
    for file, write in files:
        write(found[:limit], names, file)
    if json:
        print_json([{name: row[name] for name in names if name in row} for row in found[:limit]])
    elif files:
        print(f"{len(found[:limit])} runs written to {' and '.join(str(file) for file, _ in files)}")
    else:
        _print_searches(Path(folder))
        if not rows:
            print(f"no runs in {folder}; train one with `vaescope fit dsprites-small --steps 200`")
        elif not found:
            print(f"none of the {len(rows)} runs in {folder} is like that")
        else:
            most = len(found) if everything else SHOWN if limit is None else limit
            _print_found(found, None if columns is None else names, Path(folder), most)


def _refuse(options: dict[str, Any], subcommand: str) -> None:
    """Options of the list have no meaning for one run or a query."""
    said = [f"--{name}" for name, value in options.items() if value not in (None, False, [])]
    if said:
        instead = ", or say it in SQL" if subcommand == "sql" else ""
        raise ConfigurationError(
            f"before `{subcommand}` there must be --runs and --json alone, got {' and '.join(said)}, for the list of "
            f"runs. Leave that out{instead}."
        )


def _names(columns: str) -> list[str]:
    """Each name that is listed, once."""
    return list(dict.fromkeys(name.strip() for name in columns.split(",")))


def _files(csv: str | None, parquet: str | None) -> list[tuple[Path, Write]]:
    """What is to be written, and how; where one cannot be, none is."""
    from vaescope.cli.files import check_file, write_csv
    from vaescope.runs.queries import write_parquet

    if csv is not None and parquet is not None and os.path.realpath(csv) == os.path.realpath(parquet):
        raise ConfigurationError(f"--csv and --parquet must name two files, got {csv!r} for both. Rename one of them.")
    for file in (csv, parquet):
        check_file(file)
    return [(Path(file), write) for file, write in ((csv, write_csv), (parquet, write_parquet)) if file is not None]


def _conditions(texts: list[str]) -> dict[str, list[Any]]:
    """The values that each column may have, between commas; a list in brackets is one of them.

    Text that is a number, or true or false, stands for that, too, and none for no value.
    """
    wanted: dict[str, list[Any]] = {}
    for one in texts:
        column, equals, values = one.partition("=")
        if not (column and equals):
            raise ConfigurationError(f"--where must be COLUMN=VALUE, got {one!r}. Write --where latents=5,10.")
        for value in [values] if values.startswith("[") else values.split(","):
            wanted.setdefault(column, []).extend([value, *_meant(value)] if value else [None])
    return wanted


def _meant(value: str) -> list[bool | int | float]:
    if value.lower() in ("true", "false"):
        return [value.lower() == "true"]
    for kind in (int, float):
        with suppress(ValueError):
            return [kind(value)]
    return []


def _print_searches(folder: Path) -> None:
    # Looked for first: reading what a search found loads torch.
    if any(folder.glob("fondue-*")):
        from vaescope.sizing.store import kept_results

        for search in kept_results(folder):
            print(search["summary"])


def _print_found(found: list[dict[str, Any]], asked: list[str] | None, folder: Path, most: int) -> None:
    """A table of the first runs, and how to see the others."""
    from vaescope.cli.run_tables import print_runs
    from vaescope.cli.tables import columns_of, print_table
    from vaescope.runs.columns import drop_constant_settings

    more = "--columns chooses, --csv writes all"
    if asked is None:
        print_runs(
            found[:most],
            [name for name in columns_of(drop_constant_settings(found)) if name not in HIDDEN],
            folder,
            more,
        )
    else:
        print_table(asked, [[row.get(name) for name in asked] for row in found[:most]], more=more)
    if len(found) > most:
        print(
            f"{len(found) - most} more of {len(found)}: --all shows them, --where and --sort choose, --csv writes all"
        )


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="A run's folder or the beginning of its id.")],
    folder: Folder = "runs",
    json: Json = False,
) -> None:
    """Show one run: its configuration, its measurements, the rows of its history, and why it failed if it did."""
    from vaescope.cli.tables import columns_of, print_json, print_table
    from vaescope.runs import Store, summary
    from vaescope.runs.rows import measured_values

    found = Store(Path(folder)).find(run)
    measurements, failure = measured_values(found.path), found.failure
    if json:
        print_json({**found.record, "failure": failure, "measurements": measurements, "history": found.history})
        return
    reason = {} if failure is None else {"failure": failure["error"]}
    print_table(["", found.id], {**summary(found), **reason, **measurements}.items())
    history = [row for row in found.history if row["split"] == "test"] or found.history
    names = columns_of(history)
    print_table(names, [[row.get(name) for name in names] for row in history], title="history")
    print(f"folder {found.path}")


@app.command()
def sql(
    query: Annotated[str, typer.Argument(help="SQL over the tables `runs` and `history`.")],
    folder: Folder = "runs",
    json: Json = False,
) -> None:
    """Ask all runs a question, for instance: SELECT latents, avg(test_loss) FROM runs GROUP BY latents"""
    from vaescope.cli.tables import print_json, print_table
    from vaescope.runs.queries import query as ask

    names, rows = ask(Path(folder), query)
    if json:
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise ConfigurationError(
                f"columns must have different names to be JSON, got {', '.join(twice)} more than once. Give them other "
                "names with AS."
            )
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(names, rows, more="SELECT those you need, or --json")
