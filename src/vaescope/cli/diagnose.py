"""`vaescope diagnose`, `compare` and `report`: which latents are alive, why, and how models differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from vaescope.cli import options
from vaescope.cli.completion import of_names, run_ids
from vaescope.cli.output import (
    check_file,
    is_in_nats,
    print_json,
    print_paragraph,
    print_rows,
    print_styled,
    print_table,
)
from vaescope.cli.values import names
from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.terminal import print_line

if TYPE_CHECKING:
    import numpy as np

    from vaescope.diagnosis import Card
    from vaescope.metrics import Score

COLOURS = {"bad": "red", "warning": "yellow", "note": "cyan", "good": "green", "not applicable": "dim"}
# The columns of the table of latents with their headings, the most important first; --json has all.
LATENT_COLUMNS = {
    "group": "group",
    "latent": "latent",
    "type": "type",
    "kl": "rate (nats)",
    "encodes": "encodes",
    "kl_share": "share of rate",
    "mixed_kind": "kind of mixed",
    "variance_mean": "mean variance",
    "well_determined": "well determined",
    "passive_share": "share of passive items",
    "rolinek": "rolinek",
    "clapham": "clapham",
    "intersection": "intersection",
}
# The first columns of the table of compared models where not all fit.
MODEL_COLUMNS = ("name", "latents", *VARIABLE_TYPES, "rate (nats)", "test_reconstruction", "test_loss", "id")
SCORED = ("metric", "score", "95%", "of noise", "of the factors", "parts", "estimator")


@options.with_flags
def diagnose(
    subject: Annotated[
        str, Argument(help="A run (id or folder), or a file of codes: codes.npz, codes.csv.", autocompletion=run_ids)
    ],
    *,
    data: options.EncodedData = None,
    opened: options.EncodedDataFlags,
    alpha: options.Alpha = 0.1,
    items: options.Items = 10_000,
    predict: Annotated[bool, Option("--predict", help="Also predict factors and labels from the codes.")] = False,
    metrics: options.Metrics = None,
    exclude: Annotated[
        str | None,
        Option(
            help="Leave out latents of this type: passive (default), mixed, active or none.",
            autocompletion=of_names(*VARIABLE_TYPES, "none"),
        ),
    ] = None,
    seed: options.Seed = 0,
    model: options.Factory = None,
    runs: options.Runs = "runs",
    json: options.Json = False,
) -> None:
    """Show which latents are active, mixed or passive, whether the posterior collapsed and why, and what to do.

    A file of codes holds mean and variance (or log_variance), items x latents, from any model; in a .csv file the
    columns are named mean_0, variance_0, mean_1, ...
    """
    from vaescope.diagnosis import diagnose as diagnose_subject

    options.use_factory(model, [subject], runs)
    found = diagnose_subject(
        subject,
        opened.open_given(data),
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
    print_latents(found.rows())


def print_latents(rows: Sequence[Mapping[str, object]]) -> None:
    """Print the table of latents; a narrow terminal shows type, rate and meaning."""
    shown = [name for name in LATENT_COLUMNS if any(row.get(name) is not None for row in rows)]
    headings = [LATENT_COLUMNS[name] for name in shown]
    cells = [[_latent_cell(name, row) for name in shown] for row in rows]
    print_table(headings, cells, first=headings, more="see them with --json or in a wider terminal")


def _latent_cell(name: str, row: Mapping[str, object]) -> object:
    value = row.get(name)
    if isinstance(value, float):
        return f"{value:.0%}" if name.endswith("_share") else f"{value:.2f}"
    if name == "encodes" and isinstance(value, str):
        # The table already has the number of the latent; which others encode the same is seen in their rows.
        return value.removeprefix(f"latent {row['latent']} encodes ").partition(";")[0]
    return value


def _scored(score: Score) -> list[object]:
    """A row of the table of metrics."""
    interval = "" if score.interval is None else f"{score.interval[0]:.3f} to {score.interval[1]:.3f}"
    parts = ", ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in score.parts.items())
    return [score.metric, f"{score.score:.3f}", interval, score.random, score.perfect, parts, score.estimator]


def print_cards(verdict: str, cards: Sequence[Card]) -> None:
    """Print the verdict, and a paragraph for each card."""
    print_styled((verdict, "bold"))
    for card in cards:
        print_paragraph(
            (f"{card.status:>14}", COLOURS[card.status]),
            [(f"{card.title}. ", "bold"), (card.meaning, "")],
            *([[(card.advice, "italic")]] if card.advice else []),
        )


@options.with_flags
def compare(
    subjects: Annotated[
        list[str], Argument(help="Runs (ids or folders), or files of codes of the same items.", autocompletion=run_ids)
    ],
    *,
    data: Annotated[str | None, Option(help="Data to encode; default: the data of the first run.")] = None,
    opened: options.EncodedDataFlags,
    measure: Annotated[
        str, Option(help="Similarity: cka or procrustes.", autocompletion=of_names("cka", "procrustes"))
    ] = "cka",
    representation: Annotated[
        str,
        Option(
            help="Codes to compare: mean, sample or variance.", autocompletion=of_names("mean", "sample", "variance")
        ),
    ] = "mean",
    layers: Annotated[bool, Option("--layers", help="Also compare all layers of the first two models.")] = False,
    items: options.Items = 5000,
    seed: options.Seed = 0,
    plot: Annotated[str | None, Option(help="Write a plot of the similarities to this .html file.")] = None,
    model: options.Factory = None,
    runs: options.Runs = "runs",
    json: options.Json = False,
) -> None:
    """Compare models: size, loss, latent types, and the similarity of each pair."""
    from vaescope.diagnosis import compare as compare_subjects

    options.use_factory(model, subjects, runs)
    check_file(plot, page=True)
    found = compare_subjects(
        subjects,
        opened.open_given(data),
        measure=measure,
        representation=representation,
        layers=layers,
        items=items,
        seed=seed,
        runs=runs,
    )
    if plot is not None:
        from vaescope.reporting.heatmaps import layer_plots, similarity_plot
        from vaescope.reporting.page import write_plots

        write_plots([similarity_plot(found), *layer_plots(found)], plot, "How similar are these models?")
    if json:
        print_json(found.plain())
        return
    print_cards(f"{found.summary()}.", found.cards)
    rows = [{"rate (nats)" if name == "rate" else name: value for name, value in row.items()} for row in found.rows()]
    print_rows(rows, first=MODEL_COLUMNS, more="--json has all")
    if any(is_in_nats(name) for row in rows for name in row):
        print_line("Losses and their terms are in nats per item.")
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


@options.with_flags
def report(
    subjects: Annotated[
        list[str],
        Argument(help="A run (id or folder) or a file of codes; several are compared.", autocompletion=run_ids),
    ],
    *,
    output: Annotated[str, Option("--output", "-o", help="The .html file to write.")] = "report.html",
    data: options.EncodedData = None,
    opened: options.EncodedDataFlags,
    metrics: Annotated[str | None, Option(help="Metrics, separated by commas, or all; default: mig and dci.")] = None,
    alpha: options.Alpha = 0.1,
    items: options.Items = 10_000,
    layers: Annotated[bool, Option(help="Compare the layers of the network.")] = True,
    images: Annotated[bool, Option(help="Embed items, what the model decodes, and the decoder.")] = True,
    seed: options.Seed = 0,
    model: options.Factory = None,
    runs: options.Runs = "runs",
    json: options.Json = False,
) -> None:
    """Write an HTML report: verdict, table of latents, sliders that decode in the browser, plots. Works offline."""
    from vaescope.reporting import report as write_report

    options.use_factory(model, subjects, runs)
    check_file(output, page=True)
    path = write_report(
        subjects if len(subjects) > 1 else subjects[0],
        output,
        opened.open_given(data),
        metrics=names(metrics),
        alpha=alpha,
        items=items,
        layers=layers,
        images=images,
        seed=seed,
        runs=runs,
    )
    size = path.stat().st_size
    if json:
        print_json({"path": str(path), "bytes": size})
        return
    print_line(f"{path} ({size / 1e6:.1f} MB): open it in a browser")
