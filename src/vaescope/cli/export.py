"""`vaescope export`: the encoder and the decoder of a run as ONNX files."""

from __future__ import annotations

from typing import Annotated

import typer

from vaescope.cli import options
from vaescope.cli.output import print_json, print_rows


def export(
    run: options.RunId,
    # ONNX is the only format; the flag stays for scripts that pass it.
    onnx: Annotated[bool, typer.Option("--onnx", hidden=True)] = True,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Output folder; default: 'onnx' in the folder of the run.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Data to check with; default: the data of the run.")] = None,
    check_items: Annotated[int, typer.Option(help="Number of items to compare with PyTorch.")] = 64,
    runs: options.Runs = "runs",
    json: options.Json = False,
) -> None:
    """Export a run to ONNX: encoder.onnx (x -> mean, variance) and decoder.onnx (z -> x), for any batch size.

    Both files are checked against PyTorch before they are written. Needs `pip install 'vaescope[onnx]'`.
    """
    from vaescope.runs.exporting import export as export_run

    found = export_run(run, output, data=data, check_items=check_items, runs=runs)
    if json:
        print_json(found.plain())
        return
    print(found.summary())
    print_rows(found.rows())
    first = found.files[-1]
    given = ", ".join(f"{name!r}: {name}" for name in first.inputs)
    print(f"use them with `onnxruntime.InferenceSession({str(first.path)!r}).run(None, {{{given}}})`")
    print(f"see the run with `vaescope report {found.run.path}`")
