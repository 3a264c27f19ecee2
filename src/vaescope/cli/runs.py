"""Commands on runs: `vaescope runs` lists, shows and queries them; `prune` shrinks one, `export` writes it as ONNX."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from vaescope.cli import options
from vaescope.cli.completion import run_ids
from vaescope.cli.help import PlainCommand, PlainGroup
from vaescope.cli.output import (
    Row,
    check_file,
    print_json,
    print_rows,
    print_runs,
    print_settings,
    print_styled,
    print_table,
    runs_option,
    write_csv,
)
from vaescope.cli.values import numbers
from vaescope.errors import ConfigurationError, RunError
from vaescope.tables import columns_of
from vaescope.terminal import print_line

MAX_PRINTED_ROWS = 40
KEEP = "Latents to keep: used (all but passive), active (all but passive and mixed), or numbers such as 0,3,5."
HIDDEN_COLUMNS = ("items", "likelihood", "batch", "train_gradient_norm")  # shown only on request

app = typer.Typer(
    cls=PlainGroup,
    help="List runs, show one (`show ID`), query them with SQL (`sql QUERY`), or delete some (`delete ID`).",
    invoke_without_command=True,
)

WriteTable = Callable[[list[Row], list[str], Path], None]


@app.callback()
def runs(
    context: typer.Context,
    folder: options.Runs = "runs",
    where: Annotated[
        list[str] | None, Option(help="COLUMN=VALUE, or several values separated by commas; may be repeated.")
    ] = None,
    sort: Annotated[str | None, Option(help="Column to sort by; -COLUMN sorts in descending order.")] = None,
    limit: Annotated[
        int | None, Option(min=1, help=f"Maximum number of runs; default: {MAX_PRINTED_ROWS} in a table.")
    ] = None,
    everything: Annotated[bool, Option("--all", help="Show all runs.")] = False,
    columns: Annotated[str | None, Option(help="Columns, separated by commas.")] = None,
    disk: Annotated[bool, Option("--disk", help="Add a column `bytes`: the disk use of each run.")] = False,
    csv: Annotated[str | None, Option(metavar="FILE", help="Write the runs to a CSV file.")] = None,
    parquet: Annotated[str | None, Option(metavar="FILE", help="Write the runs to a Parquet file.")] = None,
    json: options.Json = False,
) -> None:
    if context.invoked_subcommand is not None:
        listing = {"where": where, "sort": sort, "limit": limit, "all": everything, "columns": columns, "disk": disk}
        _refuse({**listing, "csv": csv, "parquet": parquet}, context.invoked_subcommand)
        # Options before the subcommand apply to it, too.
        context.default_map = {context.invoked_subcommand: {"folder": folder, "json": json}}
        return
    from vaescope.runs.deleting import disk_use
    from vaescope.runs.queries import check_columns, select_rows
    from vaescope.runs.rows import drop_constant_settings, read_rows

    if everything and limit is not None:
        raise ConfigurationError("give --all or --limit, not both.")
    files = _files(csv, parquet)
    readable = read_rows(Path(folder))
    readable.warn()
    rows = [{**row, **({"bytes": disk_use(path)} if disk else {})} for path, row in readable.rows.items()]
    found = select_rows(rows, _conditions(where or []), sort)
    if columns is None:
        names = columns_of(drop_constant_settings(found[:limit] or rows))
    else:
        names = list(dict.fromkeys(name.strip() for name in columns.split(",")))
    check_columns(rows, names, "--columns")
    if files and not names:
        raise RunError(f"No runs in {folder} to write. Train one first with `vaescope fit`.")
    for file, write in files:
        write(found[:limit], names, file)
    if json:
        print_json([{name: row[name] for name in names if name in row} for row in found[:limit]])
    elif files:
        print_line(f"{len(found[:limit])} runs written to {' and '.join(str(file) for file, _ in files)}")
    else:
        _print_searches(Path(folder))
        if not rows:
            print_line(f"No runs in {folder}. Train one with `vaescope fit dsprites-small --steps 200`")
        elif not found:
            print_line(f"No runs match ({len(rows)} in {folder}).")
        else:
            most = len(found) if everything else MAX_PRINTED_ROWS if limit is None else limit
            _print_found(found, None if columns is None else names, Path(folder), most)


def _refuse(options: dict[str, object], subcommand: str) -> None:
    """Refuse options of the list before a subcommand."""
    given = [f"--{name}" for name, value in options.items() if value not in (None, False, [])]
    if given:
        instead = " Use SQL instead." if subcommand == "sql" else ""
        raise ConfigurationError(
            f"`runs {subcommand}` takes only --runs and --json, got {' and '.join(given)}, which filter the list of "
            f"runs.{instead}"
        )


def _files(csv: str | None, parquet: str | None) -> list[tuple[Path, WriteTable]]:
    """The files to write and the functions that write them; an unwritable file is an error."""
    from vaescope.runs.queries import write_parquet

    if csv is not None and parquet is not None and os.path.realpath(csv) == os.path.realpath(parquet):
        raise ConfigurationError(f"--csv and --parquet must be different files, got {csv!r} for both.")
    for file in (csv, parquet):
        check_file(file)
    return [(Path(file), write) for file, write in ((csv, write_csv), (parquet, write_parquet)) if file is not None]


def _conditions(texts: list[str]) -> dict[str, list[object]]:
    """The accepted values of each column, separated by commas; a list in brackets is one value.

    Text that looks like a number or a truth value also matches that value; empty text matches a missing value.
    """
    wanted: dict[str, list[object]] = {}
    for one in texts:
        column, equals, values = one.partition("=")
        if not (column and equals):
            raise ConfigurationError(f"--where must be COLUMN=VALUE, got {one!r}. Write --where latents=5,10.")
        for value in [values] if values.startswith("[") else values.split(","):
            wanted.setdefault(column, []).extend([value, *_parsed(value)] if value else [None])
    return wanted


def _parsed(value: str) -> list[bool | int | float]:
    if value.lower() in ("true", "false"):
        return [value.lower() == "true"]
    for kind in (int, float):
        with suppress(ValueError):
            return [kind(value)]
    return []


def _print_searches(folder: Path) -> None:
    # Reading results of searches loads torch.
    if any(folder.glob("fondue-*")):
        from vaescope.sizing.store import load_results

        for search in load_results(folder):
            print_styled((search["summary"], ""))


def _print_found(found: list[Row], asked: list[str] | None, folder: Path, most: int) -> None:
    """Print a table of the first runs, and how to see the others."""
    from vaescope.runs.rows import drop_constant_settings

    more = "choose with --columns, or write all with --csv"
    if asked is None:
        names = [name for name in columns_of(drop_constant_settings(found)) if name not in HIDDEN_COLUMNS]
        print_runs(found[:most], names, folder, more)
    else:
        print_rows(found[:most], asked, more=more)
    if len(found) > most:
        print_line(f"{len(found) - most} more of {len(found)}: --all shows them, --where filters, --csv writes all")


@app.command(cls=PlainCommand)
def show(
    run: options.RunId,
    folder: options.Runs = "runs",
    json: options.Json = False,
) -> None:
    """Show one run: configuration, measurements, history, and the error of a failed run."""
    from vaescope.runs import Store, summary
    from vaescope.runs.rows import measured_values

    found = Store(Path(folder)).find(run)
    measurements, failure = measured_values(found.path), found.failure
    if json:
        print_json({**found.record.table(), "failure": failure, "measurements": measurements, "history": found.history})
        return
    reason = {} if failure is None else {"failure": failure["error"]}
    note = {} if found.record.has_checksums else {"checked": "no checksums"}
    print_settings(found.id, {**summary(found), **reason, **measurements, **note})
    history = [row for row in found.history if row["split"] == "test"] or found.history
    print_rows(history, title="history (losses and their terms in nats per item)")
    print_line(f"folder {found.path}")


@app.command(cls=PlainCommand)
def sql(
    query: Annotated[str, Argument(help="SQL over the tables `runs` and `history`.")],
    timeout: Annotated[float, Option(help="Maximum number of seconds of the query.")] = 60,
    folder: options.Runs = "runs",
    json: options.Json = False,
) -> None:
    """Query runs with SQL, for example: SELECT latents, avg(test_loss) FROM runs GROUP BY latents"""
    from vaescope.runs.queries import query as run_query

    names, rows = run_query(Path(folder), query, timeout)
    if json:
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise ConfigurationError(
                f"columns in JSON need different names, but {', '.join(twice)} occurs twice. Rename one with AS."
            )
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(names, rows, more="SELECT fewer columns, or use --json")


@app.command(cls=PlainCommand)
def verify(
    runs: Annotated[
        list[str] | None,
        Argument(metavar="[IDS]", help="Ids of runs; default: the whole folder.", autocompletion=run_ids),
    ] = None,
    folder: options.Runs = "runs",
    json: options.Json = False,
) -> None:
    """Verify the checksums of runs: settings, results, histories, weights. The exit code is 1 if a file is bad."""
    from vaescope.runs.verifying import verify as verify_runs
    from vaescope.sizing.store import damaged_searches

    found = verify_runs(Path(folder), runs or [])
    if not runs:
        found = replace(found, problems=(*found.problems, *damaged_searches(Path(folder))))
    problems = [str(error) for error in found.problems]
    if json:
        print_json({"runs": found.runs, "without_checksums": found.without_checksums, "problems": problems})
    else:
        print_line("\n".join([*problems, found.summary()]))
    if problems:
        raise typer.Exit(1)


@options.with_flags
def prune(
    run: options.RunId,
    *,
    keep: Annotated[str, Option(help=KEEP)] = "used",
    data: options.EncodedData = None,
    opened: options.EncodedDataFlags,
    alpha: options.Alpha = 0.1,
    items: options.Items = 10_000,
    seed: options.Seed = 0,
    model: options.Factory = None,
    runs: options.Runs = "runs",
    json: options.Json = False,
) -> None:
    """Remove latents that a trained model does not use, and save the smaller model as a new run.

    Removed latents are fixed at their mean. Nothing is trained, and the original run does not change.
    """
    from vaescope.runs.pruning import prune as prune_run

    options.use_factory(model, [run], runs)
    # A keyword, or the numbers of latents.
    kept = numbers("keep", keep, int) if keep[:1].isdecimal() or keep[:1] == "-" else keep
    found = prune_run(run, opened.open_given(data), keep=kept, alpha=alpha, items=items, seed=seed, runs=runs)
    if json:
        print_json(found.plain())
        return
    print_styled((found.summary(), ""))
    headings = {"kl": "rate (nats)", "now": "new number", "held_at": "held at"}
    print_rows([{headings.get(name, name): value for name, value in row.items()} for row in found.rows()])
    print_line(f"saved in {found.run.path}")
    print_line(f"next: `vaescope report {found.run.id}{runs_option(str(found.run.path.parent))}`")


@options.with_flags
def export(
    run: options.RunId,
    *,
    # ONNX is the only format; the flag stays for scripts that pass it.
    onnx: Annotated[bool, Option("--onnx", hidden=True)] = True,
    output: Annotated[
        str | None, Option("--output", "-o", help="Output folder; default: 'onnx' in the folder of the run.")
    ] = None,
    data: Annotated[str | None, Option(help="Data to check with; default: the data of the run.")] = None,
    opened: options.EncodedDataFlags,
    check_items: Annotated[int, Option(help="Number of items to compare with PyTorch.")] = 64,
    model: options.Factory = None,
    runs: options.Runs = "runs",
    json: options.Json = False,
) -> None:
    """Export a run to ONNX: encoder.onnx (x -> mean, variance) and decoder.onnx (z -> x), for any batch size.

    Both files are checked against PyTorch before they are written. Needs `pip install 'vaescope[onnx]'`.
    """
    from vaescope.runs.exporting import export as export_run

    options.use_factory(model, [run], runs)
    found = export_run(run, output, data=opened.open_given(data), check_items=check_items, runs=runs)
    if json:
        print_json(found.plain())
        return
    print_styled((found.summary(), ""))
    print_rows([{**row, "file": Path(str(row["file"])).name} for row in found.rows()])
    first = found.files[-1]
    print_line(f"saved in {first.path.parent}")
    given = ", ".join(f"{name!r}: {name}" for name in first.inputs)
    print_line(f"use them with `onnxruntime.InferenceSession({str(first.path)!r}).run(None, {{{given}}})`")
    print_line(f"next: `vaescope report {found.run.path}`")
