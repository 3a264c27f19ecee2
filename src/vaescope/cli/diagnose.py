"""`vaescope diagnose`: which latents are alive, did the posterior collapse, why, and what to change."""

from __future__ import annotations

from typing import Annotated, Any

import typer

COLOURS = {"bad": "red", "warning": "yellow", "note": "cyan", "good": "green", "not applicable": "dim"}
SHOWN = (
    *("latent", "type", "rolinek", "clapham", "mixed_kind", "kl", "kl_share", "variance_mean", "passive_share"),
    "encodes",
)


SCORED = ("metric", "score", "95%", "of noise", "of the factors", "beside it", "estimator")
# A contract test compares it with the table of metrics, which would load packages that --help does not need.
METRICS = (
    "Scores to compute, separated by commas, or all: beta_vae, column_orthogonality, dci, distance_to_orthogonality, "
    "downstream_accuracy, explicitness, factor_vae, hoyer, irs, mcc, mig, mig_sup, modularity, neighbours, "
    "sample_efficiency, sap."
)


def diagnose(
    subject: Annotated[str, typer.Argument(help="A run (id or folder), or a file of codes: codes.npz, codes.csv.")],
    data: Annotated[str | None, typer.Option(help="Data to encode; those of the run when left out.")] = None,
    alpha: Annotated[float, typer.Option(help="Threshold of the variable types.")] = 0.1,
    items: Annotated[int, typer.Option(help="Encode at most so many items.")] = 10_000,
    predict: Annotated[bool, typer.Option("--predict", help="Also predict factors and labels from the codes.")] = False,
    metrics: Annotated[str, typer.Option(help=METRICS)] = "",
    exclude: Annotated[str | None, typer.Option(help="Score without latents of this type: passive, mixed.")] = None,
    seed: Annotated[int, typer.Option(help="Of samples and of the choice of items.")] = 0,
    runs: Annotated[str, typer.Option(help="Folder that runs are kept in.")] = "runs",
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Say which latents are active, mixed and passive, whether the posterior collapsed and why, and what to do.

    A file of codes holds mean and variance (or log_variance), items x latents, from any model; in a .csv the columns
    are named mean_0, variance_0, mean_1, ...
    """
    from vaescope.cli.tables import print_json, print_table
    from vaescope.diagnosis import diagnose as diagnose_subject

    wanted = metrics if metrics == "all" else [name for name in metrics.split(",") if name]
    options: dict[str, Any] = {"predict": predict, "metrics": wanted, "exclude": exclude, "seed": seed, "runs": runs}
    found = diagnose_subject(subject, data, alpha=alpha, items=items, **options)
    if json:
        print_json(found.plain())
        return
    print_cards(found.summary(), found.cards)
    if found.scores:
        print_table(SCORED, [_scored(score) for score in found.scores])
    rows = found.rows()
    names = [name for name in SHOWN if any(row.get(name) is not None for row in rows)]
    print_table(names, [[row[name] for name in names] for row in rows])


def _scored(score: Any) -> list[Any]:
    """A row of the table of scores."""
    interval = "" if score.interval is None else f"{score.interval[0]:.3f} to {score.interval[1]:.3f}"
    parts = ", ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in score.parts.items())
    return [score.metric, f"{score.score:.3f}", interval, score.random, score.perfect, parts, score.estimator]


def print_cards(verdict: str, cards: tuple[Any, ...]) -> None:
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
