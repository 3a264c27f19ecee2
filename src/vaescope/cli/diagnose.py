"""`vaescope diagnose`, `compare` and `report`: which latents are alive, why, and how models differ."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from vaescope.cli import options
from vaescope.cli.options import names
from vaescope.cli.output import check_file, print_json, print_rows, print_styled, print_table
from vaescope.terminal import print_line

if TYPE_CHECKING:
    import numpy as np

    from vaescope.diagnosis import Card
    from vaescope.metrics import Score

COLOURS = {"bad": "red", "warning": "yellow", "note": "cyan", "good": "green", "not applicable": "dim"}
SHOWN = (
    "latent",
    "type",
    "rolinek",
    "clapham",
    "mixed_kind",
    "kl",
    "kl_share",
    "variance_mean",
    "passive_share",
    "encodes",
)
SCORED = ("metric", "score", "95%", "of noise", "of the factors", "parts", "estimator")


def diagnose(
    subject: Annotated[str, Argument(help="A run (id or folder), or a file of codes: codes.npz, codes.csv.")],
    data: options.EncodedData = None,
    alpha: options.Alpha = 0.1,
    items: options.Items = 10_000,
    predict: Annotated[bool, Option("--predict", help="Also predict factors and labels from the codes.")] = False,
    metrics: options.Metrics = None,
    exclude: Annotated[
        str | None, Option(help="Compute metrics without latents of this type: passive or mixed.")
    ] = None,
    seed: options.Seed = 0,
    runs: options.Runs = "runs",
    json: options.Json = False,
) -> None:
    """Show which latents are active, mixed or passive, whether the posterior collapsed and why, and what to do.

    A file of codes holds mean and variance (or log_variance), items x latents, from any model; in a .csv file the
    columns are named mean_0, variance_0, mean_1, ...
    """
    from vaescope.diagnosis import diagnose as diagnose_subject

    found = diagnose_subject(
        subject,
        data,
        alpha=alpha,
        items=items,
        predict=predict,
        metrics=names(metrics) or (),
        exclude=exclude,
        seed=seed,
        runs=runs,
    )
    if json:
        print_json(found.plain())
        return
    print_cards(found.summary(), found.cards)
    if found.scores:
        print_table(SCORED, [_scored(score) for score in found.scores])
    rows = found.rows()
    shown = [name for name in SHOWN if any(row.get(name) is not None for row in rows)]
    print_rows(rows, shown)


def _scored(score: Score) -> list[object]:
    """A row of the table of metrics."""
    interval = "" if score.interval is None else f"{score.interval[0]:.3f} to {score.interval[1]:.3f}"
    parts = ", ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in score.parts.items())
    return [score.metric, f"{score.score:.3f}", interval, score.random, score.perfect, parts, score.estimator]


def print_cards(verdict: str, cards: Sequence[Card]) -> None:
    """Print the verdict, and a paragraph for each card."""
    print_styled((verdict, "bold"))
    for card in cards:
        print_styled((f"{card.status:>14}  ", COLOURS[card.status]), (f"{card.title}. ", "bold"), (card.meaning, ""))
        if card.advice:
            print_styled((f"{'':16}{card.advice}", "italic"))


def compare(
    subjects: Annotated[list[str], Argument(help="Runs (ids or folders), or files of codes of the same items.")],
    data: Annotated[str | None, Option(help="Data to encode; default: the data of the first run.")] = None,
    measure: Annotated[str, Option(help="Similarity: cka or procrustes.")] = "cka",
    representation: Annotated[str, Option(help="Codes to compare: mean, sample or variance.")] = "mean",
    layers: Annotated[bool, Option("--layers", help="Also compare all layers of the first two models.")] = False,
    items: options.Items = 5000,
    seed: options.Seed = 0,
    plot: Annotated[str | None, Option(help="Write a plot of the similarities to this .html file.")] = None,
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
        print_line(f"plot: {plot}")


def _matrix_rows(names: Sequence[str], matrix: np.ndarray) -> list[list[str]]:
    cells = [["" if isnan(value) else f"{value:.3f}" for value in row] for row in matrix]
    return [[name, *row] for name, row in zip(names, cells, strict=True)]


def report(
    subjects: Annotated[list[str], Argument(help="A run (id or folder) or a file of codes; several are compared.")],
    output: Annotated[str, Option("--output", "-o", help="The .html file to write.")] = "report.html",
    data: options.EncodedData = None,
    metrics: Annotated[str | None, Option(help="Metrics, separated by commas, or all; default: mig and dci.")] = None,
    alpha: options.Alpha = 0.1,
    items: options.Items = 10_000,
    layers: Annotated[bool, Option(help="Compare the layers of the network.")] = True,
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
    print_line(f"{path} ({size / 1e6:.1f} MB): open it in a browser")
