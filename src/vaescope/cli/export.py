"""`vaescope export`: the encoder and the decoder of a run as files for other programs."""

from __future__ import annotations

from typing import Annotated

import typer

from vaescope.errors import ConfigurationError


def export(
    run: Annotated[str, typer.Argument(help="A run's folder or the beginning of its id.")],
    onnx: Annotated[bool, typer.Option("--onnx", help="As ONNX, the format there is.")] = False,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Folder to write in; 'onnx' in the run's when left out.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Data to check with; those of the run when left out.")] = None,
    check_items: Annotated[int, typer.Option(help="Items to compare with PyTorch on.")] = 64,
    runs: Annotated[str, typer.Option(help="Folder that runs are kept in.")] = "runs",
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Write encoder.onnx (x -> mean, variance) and decoder.onnx (z -> x), for any number of items.

    Both are compared with PyTorch on items of the data before they are written. Needs `pip install 'vaescope[onnx]'`.
    """
    from vaescope.cli.tables import print_json, print_rows
    from vaescope.runs.exporting import export as export_run

    if not onnx:
        raise ConfigurationError("export must be told a format, and there is one: add --onnx.")
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
