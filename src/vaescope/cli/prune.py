"""`vaescope prune`: drop the latents that a run does not use, and keep the smaller model as a run of its own."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Annotated

import typer

KEEP = "used (drops passive latents), active (drops mixed ones, too), or numbers such as 0,3,5."


def prune(
    run: Annotated[str, typer.Argument(help="A run's folder or the beginning of its id.")],
    keep: Annotated[str, typer.Option(help=KEEP)] = "used",
    data: Annotated[str | None, typer.Option(help="Data to encode; those of the run when left out.")] = None,
    alpha: Annotated[float, typer.Option(help="Threshold of the variable types.")] = 0.1,
    items: Annotated[int, typer.Option(help="Encode at most so many items.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Of the choice of items.")] = 0,
    runs: Annotated[str, typer.Option(help="Folder that runs are kept in.")] = "runs",
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Make a smaller model of a trained one: latents that are not kept are held at their mean and leave it.

    Nothing is trained, and the run itself stays as it is. Asked twice, it writes once.
    """
    from vaescope.cli.tables import print_json, print_rows
    from vaescope.runs.pruning import prune as prune_run
    from vaescope.runs.store import DEFAULT_FOLDER

    found = prune_run(run, data, keep=_kept(keep), alpha=alpha, items=items, seed=seed, runs=runs)
    if json:
        print_json(found.plain())
        return
    print(found.summary())
    print_rows(found.rows())
    folder = str(found.run.path.parent)
    where = "" if folder == DEFAULT_FOLDER else f" --runs {shlex.quote(folder)}"
    print(f"kept in {found.run.path}; see it with `vaescope report {found.run.id}{where}`")


def _kept(keep: str) -> str | Sequence[int]:
    """A word, or the numbers of latents."""
    from vaescope.cli.parts import numbers

    return numbers("keep", keep, int) if keep[:1].isdecimal() or keep[:1] == "-" else keep
