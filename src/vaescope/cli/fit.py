"""`vaescope fit`: train one model, or one for each combination of the listed values, and keep the runs."""

from __future__ import annotations

import shlex
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from vaescope.cli import parts
from vaescope.cli.parts import given, numbers, opened, parse_settings, part, table
from vaescope.errors import ConfigurationError


def fit(
    data: Annotated[str, typer.Argument(help="A name (see `vaescope datasets`), or a path to your own data.")],
    latents: Annotated[str, typer.Option(help="Number of latents; a list such as 5,10,20 trains one of each.")] = "10",
    model: Annotated[str, typer.Option(help=f"{parts.MODELS}, autoencoder.")] = "vae",
    net: Annotated[str | None, typer.Option(help=parts.NETS)] = None,
    likelihood: Annotated[str | None, typer.Option(help=parts.LIKELIHOODS)] = None,
    posterior: Annotated[
        str | None, typer.Option(help=f"{parts.POSTERIORS}, deterministic; by the model when left out.")
    ] = None,
    prior: Annotated[str | None, typer.Option(help=parts.PRIORS)] = None,
    objective: Annotated[str, typer.Option(help=parts.OBJECTIVES)] = "beta",
    beta: Annotated[str | None, typer.Option(help="Weight of the rate; a list trains one of each.")] = None,
    warm_up: Annotated[float | None, typer.Option(help=parts.WARM_UP)] = None,
    free_bits: Annotated[float | None, typer.Option(help=parts.FREE_BITS)] = None,
    optimiser: Annotated[str, typer.Option(help=parts.OPTIMISERS)] = "adam",
    learning_rate: Annotated[str, typer.Option(help="A list trains one of each.")] = "1e-4",
    steps: Annotated[int | None, typer.Option(help="Updates; 5000 when left out.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Passes over the data, instead of steps.")] = None,
    batch: Annotated[int, typer.Option(help="Items in a batch.")] = 64,
    seed: Annotated[str, typer.Option(help="A list such as 0,1,2 trains one of each.")] = "0",
    held_out: Annotated[float, typer.Option(help="Share of items kept for evaluation.")] = 0.1,
    precision: Annotated[str, typer.Option(help=parts.PRECISIONS)] = "float32",
    initialisation: Annotated[str | None, typer.Option(help=parts.INITIALISATIONS)] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda; cuda where there is one when left out.")] = None,
    runs: Annotated[str, typer.Option(help="Folder that runs are kept in.")] = "runs",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any option of a part, as PART.OPTION=VALUE: --set net.kernels=[4,4,4,4]"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Train a VAE or an autoencoder. Asked twice, it trains once; stopped, the same command goes on.

    Options that take a list train one model for each combination, together where that is faster.
    """
    from vaescope.cli.tables import print_json
    from vaescope.objectives import OBJECTIVES
    from vaescope.runs import fit_many, summary
    from vaescope.training import Member

    options = parse_settings(settings or [])
    if beta is not None and "beta" in options["objective"]:
        raise ConfigurationError(f"give --beta or --set objective.beta, not both; got --beta {beta}.")
    schedules = given(warm_up=warm_up, free_bits=free_bits)
    betas = numbers("beta", beta, float) if beta is not None else [None]
    members = [
        Member(
            size,
            OBJECTIVES.resolve(table(objective, {**options["objective"], **schedules, **given(beta=strength)})),
            rate,
            start,
        )
        for size, strength, rate, start in product(
            numbers("latents", latents, int),
            betas,
            numbers("learning-rate", learning_rate, float),
            numbers("seed", seed, int),
        )
    ]
    trained = fit_many(
        opened(data, options["data"]) if options["data"] else data,
        members,
        model=part("model", model, options),
        net=part("net", net, options),
        posterior=part("posterior", posterior, options),
        prior=part("prior", prior, options),
        likelihood=part("likelihood", likelihood, options),
        optimiser=part("optimiser", optimiser, options),
        **{"initialisation": initialisation, "batch": batch, "steps": steps, "epochs": epochs},
        **{"precision": precision, "held_out": held_out, "device": device, "runs": runs},
    )
    rows = list({run.id: summary(run) for run in trained}.values())
    if json:
        print_json(rows)
    else:
        _show(rows, runs)


def _show(rows: list[dict[str, Any]], runs: str) -> None:
    """One run as a list of all that is known of it, several as a table of what differs and what came of it."""
    from vaescope.cli.run_tables import print_runs
    from vaescope.cli.tables import columns_of, print_table
    from vaescope.runs.store import DEFAULT_FOLDER

    if len(rows) == 1:
        print_table(["", "run"], rows[0].items())
    else:
        varying = [name for name in columns_of(rows) if len({row.get(name) for row in rows}) > 1]
        names = [name for name in varying if name != "train_gradient_norm"]
        print_runs(rows, names, Path(runs), "`vaescope runs --csv FILE` writes all")
    where = "" if runs == DEFAULT_FOLDER else f" --runs {shlex.quote(runs)}"
    print(f"kept in {runs}/; see `vaescope runs show {rows[0]['id']}{where}`")
