"""`vaescope diagnose`: which latents are alive, did the posterior collapse, why, and what to change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from vaescope.cli import options
from vaescope.cli.options import names
from vaescope.cli.output import print_json, print_rows, print_table

if TYPE_CHECKING:
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
    subject: Annotated[str, typer.Argument(help="A run (id or folder), or a file of codes: codes.npz, codes.csv.")],
    data: options.EncodedData = None,
    alpha: options.Alpha = 0.1,
    items: options.Items = 10_000,
    predict: Annotated[bool, typer.Option("--predict", help="Also predict factors and labels from the codes.")] = False,
    metrics: options.Metrics = None,
    exclude: Annotated[
        str | None, typer.Option(help="Compute metrics without latents of this type: passive or mixed.")
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
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    console.print(Text(verdict, style="bold"))
    for card in cards:
        console.print(
            Text.assemble((f"{card.status:>14}  ", COLOURS[card.status]), (f"{card.title}. ", "bold"), card.meaning)
        )
        if card.advice:
            console.print(Text(f"{'':16}{card.advice}", style="italic"))
