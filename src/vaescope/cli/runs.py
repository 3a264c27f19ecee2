"""`vaescope runs`: list the runs of a folder, show one, or ask them questions in SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="List runs, show one (`show ID`), or query all of them (`sql QUERY`).", invoke_without_command=True
)

Folder = Annotated[str, typer.Option("--runs", help="Folder that runs are kept in.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


@app.callback()
def runs(context: typer.Context, folder: Folder = "runs", json: Json = False) -> None:
    if context.invoked_subcommand is not None:
        # What was said before the name of the subcommand holds for it, too.
        context.default_map = {context.invoked_subcommand: {"folder": folder, "json": json}}
        return
    from vaescope.cli.tables import columns_of, print_json, print_table
    from vaescope.fondue.keeping import kept_results
    from vaescope.runs import Store, summary

    rows = [summary(run) for run in Store(Path(folder)).runs()]
    searches = kept_results(Path(folder))
    if json:
        print_json(rows)
        return
    for search in searches:
        print(search["summary"])
    if not rows:
        print(f"no runs in {folder}; train one with `vaescope fit dsprites-small --steps 200`")
    else:
        hidden = {"items", "likelihood", "batch", "train_gradient_norm"}
        names = [name for name in columns_of(rows) if name not in hidden]
        print_table(names, [[row.get(name) for name in names] for row in rows])


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="A run's folder or the beginning of its id.")],
    folder: Folder = "runs",
    json: Json = False,
) -> None:
    """Show one run: its configuration and the rows of its history."""
    from vaescope.cli.tables import columns_of, print_json, print_table
    from vaescope.runs import Store, summary

    found = Store(Path(folder)).find(run)
    if json:
        print_json({**found.record, "history": found.history})
        return
    print_table(["", found.id], summary(found).items())
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
    from vaescope.runs import Store

    names, rows = Store(Path(folder)).query(query)
    if json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(names, rows)
