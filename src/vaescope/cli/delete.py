"""`vaescope runs delete`: delete runs, after showing them and asking."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Argument, Option

from vaescope.cli import options
from vaescope.cli.completion import run_ids
from vaescope.cli.output import print_json, print_rows
from vaescope.errors import ConfigurationError
from vaescope.terminal import print_line, printable


def delete(
    runs: Annotated[
        list[str], Argument(metavar="IDS", help="Ids of runs (their first characters suffice).", autocompletion=run_ids)
    ],
    yes: Annotated[bool, Option("--yes", "-y", help="Delete without asking, for scripts.")] = False,
    folder: options.Runs = "runs",
    json: options.Json = False,
) -> None:
    """Delete runs with everything in their folders. Shows them with their disk use, and asks for confirmation."""
    from vaescope.runs import Store

    if json and not yes:
        raise ConfigurationError("--json cannot ask a question, and deleting asks first. Pass --yes, too.")
    store = Store(folder)
    found = store.deletable(*runs)
    rows, size = [run.row() for run in found], sum(run.bytes for run in found)
    if not json:
        print_rows(rows)
    what = f"{len(found)} {'run' if len(found) == 1 else 'runs'} ({size / 1e6:,.1f} MB)"
    if not (yes or _confirmed(f"Delete {what} from {printable(folder)}? [y/N] ")):
        print_line("Nothing was deleted.")
        raise typer.Exit(1)
    store.delete(*(run.path for run in found))
    if json:
        print_json({"deleted": rows, "bytes": size})
    else:
        print_line(f"{what} deleted.")


def _confirmed(question: str) -> bool:
    """Whether the answer is yes; without an answer, raise an error."""
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError as error:
        raise ConfigurationError("deleting asks first, and nobody answered. Pass --yes to delete anyway.") from error
