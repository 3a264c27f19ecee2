"""`vaescope runs`: list the runs of a folder, show one, or ask them questions in SQL."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from vaescope.errors import ConfigurationError

SHOWN = 40  # runs that people see unless they ask for more
HIDDEN = ("items", "likelihood", "batch", "train_gradient_norm")  # from people who do not ask for them

app = typer.Typer(
    help="List runs, show one (`show ID`), or query all of them (`sql QUERY`).", invoke_without_command=True
)

Folder = Annotated[str, typer.Option("--runs", help="Folder that runs are kept in.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


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
        # What was said before the name of the subcommand holds for it, too.
        context.default_map = {context.invoked_subcommand: {"folder": folder, "json": json}}
        return
    from vaescope.cli.tables import columns_of, print_json
    from vaescope.runs.listing import check_columns, chosen
    from vaescope.runs.rows import rows_in

    if everything and limit is not None:
        raise ConfigurationError("--all and --limit exclude each other. Leave one of them out.")
    rows = rows_in(Path(folder))
    found = chosen(rows, _conditions(where or []), sort)
    names = columns_of(rows) if columns is None else columns.split(",")
    check_columns(rows, names, "--columns")
    files = {file: write for file, write in ((csv, _write_csv), (parquet, _write_parquet)) if file is not None}
    for file, write in files.items():
        write(found[:limit], names, Path(file))
    if json:
        print_json([{name: row[name] for name in names if name in row} for row in found[:limit]])
    elif files:
        print(f"{len(found[:limit])} runs written to {' and '.join(files)}")
    else:
        _print_searches(Path(folder))
        if not rows:
            print(f"no runs in {folder}; train one with `vaescope fit dsprites-small --steps 200`")
        elif not found:
            print(f"none of the {len(rows)} runs in {folder} is like that")
        else:
            shown = [name for name in columns_of(found) if name not in HIDDEN] if columns is None else names
            _print_rows(found, shown, len(found) if everything else SHOWN if limit is None else limit)


def _conditions(texts: list[str]) -> dict[str, list[Any]]:
    """The values that each column may have; text that is a number stands for that, too, and none for no value."""
    wanted: dict[str, list[Any]] = {}
    for one in texts:
        column, equals, values = one.partition("=")
        if not (column and equals):
            raise ConfigurationError(f"--where must be COLUMN=VALUE, got {one!r}. Write --where latents=5,10.")
        for value in values.split(","):
            wanted.setdefault(column, []).extend([value, *_number(value)] if value else [None])
    return wanted


def _number(value: str) -> list[int | float]:
    for kind in (int, float):
        with suppress(ValueError):
            return [kind(value)]
    return []


def _print_searches(folder: Path) -> None:
    # Looked for first: reading what a search found loads torch.
    if any(folder.glob("fondue-*")):
        from vaescope.fondue.keeping import kept_results

        for search in kept_results(folder):
            print(search["summary"])


def _print_rows(found: list[dict[str, Any]], names: list[str], most: int) -> None:
    """A table of the first runs, and how to see the others."""
    from vaescope.cli.tables import print_table

    print_table(names, [[row.get(name) for name in names] for row in found[:most]])
    if len(found) > most:
        print(
            f"{len(found) - most} more of {len(found)}: --all shows them, --where and --sort choose, --csv writes all"
        )


def _write_csv(rows: list[dict[str, Any]], names: list[str], file: Path) -> None:
    from vaescope.showing import csv_text

    try:
        file.write_text(csv_text(rows, names), encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{file} must be a file that can be written, it cannot ({error.strerror}).") from error


def _write_parquet(rows: list[dict[str, Any]], names: list[str], file: Path) -> None:
    from vaescope.runs.queries import write_parquet

    write_parquet(rows, names, file)


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="A run's folder or the beginning of its id.")],
    folder: Folder = "runs",
    json: Json = False,
) -> None:
    """Show one run: its configuration and the rows of its history."""
    from vaescope.cli.tables import columns_of, print_json, print_table
    from vaescope.runs import Store, summary
    from vaescope.runs.rows import measured_values

    found = Store(Path(folder)).find(run)
    if json:
        print_json({**found.record, "history": found.history})
        return
    print_table(["", found.id], {**summary(found), **measured_values(found.path)}.items())
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
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(names, rows)
