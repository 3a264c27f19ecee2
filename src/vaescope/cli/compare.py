"""`vaescope compare`: the runs next to each other, and the similarity of their representations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from vaescope.cli import options
from vaescope.cli.diagnose import print_cards
from vaescope.cli.output import check_file, print_json, print_rows, print_table

if TYPE_CHECKING:
    import numpy as np


def compare(
    subjects: Annotated[list[str], typer.Argument(help="Runs (ids or folders), or files of codes of the same items.")],
    data: Annotated[str | None, typer.Option(help="Data to encode; default: the data of the first run.")] = None,
    measure: Annotated[str, typer.Option(help="Similarity: cka or procrustes.")] = "cka",
    representation: Annotated[str, typer.Option(help="Codes to compare: mean, sample or variance.")] = "mean",
    layers: Annotated[bool, typer.Option("--layers", help="Also compare all layers of the first two models.")] = False,
    items: options.Items = 5000,
    seed: options.Seed = 0,
    plot: Annotated[str | None, typer.Option(help="Write a plot of the similarities to this .html file.")] = None,
    runs: options.Runs = "runs",
    json: options.Json = False,
) -> None:
    """Compare models: size, loss, latent types, and the similarity of each pair."""
    from vaescope.diagnosis import compare as compare_subjects

    check_file(plot)
    found = compare_subjects(
        subjects, data, measure=measure, representation=representation, layers=layers, items=items, seed=seed, runs=runs
    )
    if plot is not None:
        from vaescope.reporting.heatmaps import layer_plots, similarity_plot
        from vaescope.reporting.page import write_plots

        write_plots([similarity_plot(found), *layer_plots(found)], plot, "How similar are these models?")
    if json:
        print_json(found.plain())
        return
    print_cards(f"{found.summary()}.", found.cards)
    print_rows(found.rows())
    print_table([measure, *found.names], _matrix_rows(found.names, found.matrix))
    if found.layers is not None:
        print_table(
            [f"layers of {found.names[0]}", *found.layers.columns],
            _matrix_rows(found.layers.rows, found.layers.matrix),
            title=f"Compared with the layers of {found.names[1]}",
        )
    if plot is not None:
        print(f"plot: {plot}")


def _matrix_rows(names: Sequence[str], matrix: np.ndarray) -> list[list[str]]:
    return [[name, *(f"{value:.3f}" for value in row)] for name, row in zip(names, matrix, strict=True)]
