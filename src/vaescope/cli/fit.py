"""`vaescope datasets`: what can be trained on; `vaescope fit`: train a model or many, and keep the runs."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Annotated

from typer import Option

from vaescope.checks import check_run_count
from vaescope.cli import options
from vaescope.cli.options import numbers
from vaescope.cli.output import Row, print_json, print_rows, print_runs, print_table, runs_option
from vaescope.errors import ConfigurationError
from vaescope.tables import columns_of
from vaescope.terminal import print_line


def datasets(json: options.Json = False) -> None:
    """List the data sets that have a name: items, shape, factors, location.

    Your own data need no name: pass the path of a .npy, .npz or .csv file, or of a folder of images.
    """
    from vaescope.data import DATASETS

    rows = [
        {
            "name": name,
            "items": entry.items or None,
            "shape": " x ".join(map(str, entry.shape)),
            "factors": ", ".join(entry.factors),
            "where": entry.locate() or entry.how_to_get,
            "what": entry.summary,
        }
        for name, entry in sorted(DATASETS.items())
    ]
    if json:
        print_json(rows)
    else:
        print_rows(rows, first=("name", "where", "what", "items", "shape"))


@options.with_training_flags
def fit(
    data: options.Data,
    *,
    latents: Annotated[str, Option(help="Number of latents; a list such as 5,10,20 trains one each.")] = "10",
    beta: Annotated[str | None, Option(help="Weight of the KL term; a list trains one model each.")] = None,
    learning_rate: Annotated[str, Option(help="Learning rate; a list trains one model each.")] = "1e-4",
    steps: Annotated[int | None, Option(help="Training steps; default: 5000.")] = None,
    epochs: Annotated[float | None, Option(help="Passes over the data, instead of steps.")] = None,
    batch: Annotated[int, Option(help="Batch size.")] = 64,
    seed: Annotated[str, Option(help="Random seed; a list such as 0,1,2 trains one model each.")] = "0",
    training: options.TrainingFlags,
    json: options.Json = False,
) -> None:
    """Train a VAE or an autoencoder. Reuses finished runs and resumes interrupted ones.

    Options that take a list train one model for each combination, together where that is faster.
    """
    from vaescope.objectives import OBJECTIVES
    from vaescope.runs import FitOptions, fit_many, summary
    from vaescope.training import Member

    if beta is not None and "beta" in training.tables["objective"]:
        raise ConfigurationError(f"give --beta or --set objective.beta, not both; got --beta {beta}.")
    sizes, seeds = numbers("latents", latents, int), numbers("seed", seed, int)
    betas = [None] if beta is None else numbers("beta", beta, float)
    rates = numbers("learning-rate", learning_rate, float)
    check_run_count({"latents": len(sizes), "beta": len(betas), "learning_rate": len(rates), "seed": len(seeds)})
    members = [
        Member(size, OBJECTIVES.resolve(training.objective_table(strength)), rate, start)
        for size, strength, rate, start in product(sizes, betas, rates, seeds)
    ]
    fit_options = FitOptions(batch=batch, steps=steps, epochs=epochs, **training.keywords())
    trained = fit_many(training.open_data(data), members, fit_options)
    rows = list({run.id: summary(run) for run in trained}.values())
    if json:
        print_json(rows)
    else:
        _print_fit(rows, training.runs)


def _print_fit(rows: list[Row], runs: str) -> None:
    """Print one run with everything that is known about it, or a table of what differs between several."""
    if len(rows) == 1:
        print_table(["", "run"], rows[0].items())
    else:
        varying = [name for name in columns_of(rows) if len({row.get(name) for row in rows}) > 1]
        names = [name for name in varying if name != "train_gradient_norm"]
        print_runs(rows, names, Path(runs), "`vaescope runs --csv FILE` writes all")
    print_line(f"saved in {runs}/; see `vaescope runs show {rows[0]['id']}{runs_option(runs)}`")
