"""`vaescope prune`: remove the latents that a run does not use, and save the smaller model as a new run."""

from __future__ import annotations

from typing import Annotated

import typer

from vaescope.cli import options
from vaescope.cli.options import numbers
from vaescope.cli.output import print_json, print_rows, runs_option

KEEP = "Latents to keep: used (all but passive), active (all but passive and mixed), or numbers such as 0,3,5."


def prune(
    run: options.RunId,
    keep: Annotated[str, typer.Option(help=KEEP)] = "used",
    data: options.EncodedData = None,
    alpha: options.Alpha = 0.1,
    items: options.Items = 10_000,
    seed: options.Seed = 0,
    runs: options.Runs = "runs",
    json: options.Json = False,
) -> None:
    """Remove latents that a trained model does not use, and save the smaller model as a new run.

    Removed latents are fixed at their mean. Nothing is trained, and the original run does not change.
    """
    from vaescope.runs.pruning import prune as prune_run

    # A keyword, or the numbers of latents.
    kept = numbers("keep", keep, int) if keep[:1].isdecimal() or keep[:1] == "-" else keep
    found = prune_run(run, data, keep=kept, alpha=alpha, items=items, seed=seed, runs=runs)
    if json:
        print_json(found.plain())
        return
    print(found.summary())
    print_rows(found.rows())
    where = runs_option(str(found.run.path.parent))
    print(f"saved in {found.run.path}; see it with `vaescope report {found.run.id}{where}`")
