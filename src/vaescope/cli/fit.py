"""`vaescope fit`: train one model, or one for each combination of the listed values, and keep the runs."""

from __future__ import annotations

import shlex
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vaescope.cli import options
from vaescope.cli.parts import PartOptions, numbers, open_data
from vaescope.errors import ConfigurationError

if TYPE_CHECKING:
    from vaescope.cli.tables import Row


def fit(
    data: options.Data,
    latents: Annotated[str, typer.Option(help="Number of latents; a list such as 5,10,20 trains one each.")] = "10",
    model: options.Model = "vae",
    net: options.Net = None,
    likelihood: options.Likelihood = None,
    posterior: options.Posterior = None,
    prior: options.Prior = None,
    objective: options.Objective = "beta",
    beta: Annotated[str | None, typer.Option(help="Weight of the KL term; a list trains one model each.")] = None,
    warm_up: options.WarmUp = None,
    free_bits: options.FreeBits = None,
    optimiser: options.Optimiser = "adam",
    learning_rate: Annotated[str, typer.Option(help="Learning rate; a list trains one model each.")] = "1e-4",
    steps: Annotated[int | None, typer.Option(help="Training steps; default: 5000.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Passes over the data, instead of steps.")] = None,
    batch: Annotated[int, typer.Option(help="Batch size.")] = 64,
    seed: Annotated[str, typer.Option(help="Random seed; a list such as 0,1,2 trains one model each.")] = "0",
    held_out: options.HeldOut = 0.1,
    precision: options.Precision = "float32",
    initialisation: options.Initialisation = None,
    device: options.Device = None,
    runs: options.Runs = "runs",
    settings: options.PartSettings = None,
    json: options.Json = False,
) -> None:
    """Train a VAE or an autoencoder. Reuses finished runs and resumes interrupted ones.

    Options that take a list train one model for each combination, together where that is faster.
    """
    from vaescope.cli.tables import print_json
    from vaescope.objectives import OBJECTIVES
    from vaescope.runs import FitOptions, fit_many, summary
    from vaescope.training import Member

    given = PartOptions.parse(settings or [])
    if beta is not None and "beta" in given.of("objective"):
        raise ConfigurationError(f"give --beta or --set objective.beta, not both; got --beta {beta}.")
    members = [
        Member(
            size,
            OBJECTIVES.resolve(given.objective(objective, beta=strength, warm_up=warm_up, free_bits=free_bits)),
            rate,
            start,
        )
        for size, strength, rate, start in product(
            numbers("latents", latents, int),
            [None] if beta is None else numbers("beta", beta, float),
            numbers("learning-rate", learning_rate, float),
            numbers("seed", seed, int),
        )
    ]
    trained = fit_many(
        open_data(data, given),
        members,
        FitOptions(
            model=given.part("model", model) or model,
            net=given.part("net", net),
            posterior=given.part("posterior", posterior),
            prior=given.part("prior", prior),
            likelihood=given.part("likelihood", likelihood),
            initialisation=initialisation,
            optimiser=given.part("optimiser", optimiser) or optimiser,
            batch=batch,
            steps=steps,
            epochs=epochs,
            precision=precision,
            held_out=held_out,
            device=device,
            runs=runs,
        ),
    )
    rows = list({run.id: summary(run) for run in trained}.values())
    if json:
        print_json(rows)
    else:
        _show(rows, runs)


def _show(rows: list[Row], runs: str) -> None:
    """Print one run with everything that is known about it, or a table of what differs between several."""
    from vaescope.cli.run_tables import print_runs
    from vaescope.cli.tables import columns_of, print_table
    from vaescope.runs.store import DEFAULT_FOLDER

    if len(rows) == 1:
        print_table(["", "run"], [list(pair) for pair in rows[0].items()])
    else:
        varying = [name for name in columns_of(rows) if len({row.get(name) for row in rows}) > 1]
        names = [name for name in varying if name != "train_gradient_norm"]
        print_runs(rows, names, Path(runs), "`vaescope runs --csv FILE` writes all")
    where = "" if runs == DEFAULT_FOLDER else f" --runs {shlex.quote(runs)}"
    print(f"saved in {runs}/; see `vaescope runs show {rows[0]['id']}{where}`")
