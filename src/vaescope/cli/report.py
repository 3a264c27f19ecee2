"""`vaescope report`: one HTML file that tells what became of a model, or compares several."""

from __future__ import annotations

from typing import Annotated

import typer


def report(
    subjects: Annotated[
        list[str], typer.Argument(help="A run (id or folder) or a file of codes; several are compared.")
    ],
    output: Annotated[str, typer.Option("--output", "-o", help="The .html file to write.")] = "report.html",
    data: Annotated[str | None, typer.Option(help="Data to encode; those of the run when left out.")] = None,
    metrics: Annotated[
        str | None, typer.Option(help="Scores, separated by commas, or all; MIG and DCI when left out.")
    ] = None,
    alpha: Annotated[float, typer.Option(help="Threshold of the variable types.")] = 0.1,
    items: Annotated[int, typer.Option(help="Encode at most so many items.")] = 10_000,
    layers: Annotated[bool, typer.Option(help="Compare the layers of the network.")] = True,
    seed: Annotated[int, typer.Option(help="Of samples and of the choice of items.")] = 0,
    runs: Annotated[str, typer.Option(help="Folder that runs are kept in.")] = "runs",
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Write a page that opens from disk: verdict, a table of latents, sliders that decode in the browser, plots."""
    from vaescope.cli.files import check_file
    from vaescope.cli.tables import print_json
    from vaescope.reporting import report as write_report

    check_file(output)
    wanted = metrics if metrics in (None, "all") else [name for name in metrics.split(",") if name]
    path = write_report(
        subjects if len(subjects) > 1 else subjects[0],
        output,
        data,
        metrics=wanted,
        alpha=alpha,
        items=items,
        layers=layers,
        seed=seed,
        runs=runs,
    )
    size = path.stat().st_size
    if json:
        print_json({"path": str(path), "bytes": size})
        return
    print(f"{path} ({size / 1e6:.1f} MB): open it in a browser")
