"""`vaescope report`: one HTML file about a model, or a comparison of several."""

from __future__ import annotations

from typing import Annotated

import typer

from vaescope.cli import options
from vaescope.cli.options import names
from vaescope.cli.output import check_file, print_json


def report(
    subjects: Annotated[
        list[str], typer.Argument(help="A run (id or folder) or a file of codes; several are compared.")
    ],
    output: Annotated[str, typer.Option("--output", "-o", help="The .html file to write.")] = "report.html",
    data: options.EncodedData = None,
    metrics: Annotated[
        str | None, typer.Option(help="Metrics, separated by commas, or all; default: mig and dci.")
    ] = None,
    alpha: options.Alpha = 0.1,
    items: options.Items = 10_000,
    layers: Annotated[bool, typer.Option(help="Compare the layers of the network.")] = True,
    seed: options.Seed = 0,
    runs: options.Runs = "runs",
    json: options.Json = False,
) -> None:
    """Write an HTML report: verdict, table of latents, sliders that decode in the browser, plots. Works offline."""
    from vaescope.reporting import report as write_report

    check_file(output)
    path = write_report(
        subjects if len(subjects) > 1 else subjects[0],
        output,
        data,
        metrics=names(metrics),
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
