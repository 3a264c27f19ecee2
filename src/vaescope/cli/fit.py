"""`vaescope fit` and `vaescope resume` train models and save the runs."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vaescope.checks import check_run_count
from vaescope.cli import options
from vaescope.cli.completion import run_ids
from vaescope.cli.output import (
    Row,
    already_trained,
    is_in_nats,
    print_json,
    print_runs,
    print_settings,
    print_styled,
    runs_option,
    varies,
)
from vaescope.cli.values import numbers
from vaescope.errors import ConfigurationError
from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.runs.rows import INTERVALS
from vaescope.runs.type_counts import TYPES_FROM, TYPES_ITEMS
from vaescope.tables import columns_of
from vaescope.terminal import print_line

if TYPE_CHECKING:
    from vaescope.runs import Run

# Settings that the summary of a run always shows; of the others, those that are not the defaults.
ALWAYS_SHOWN = ("data", "items", "model", "net", "likelihood", "latents", "steps")
NOT_SETTINGS = ("id", "status", "step", *VARIABLE_TYPES, TYPES_ITEMS, TYPES_FROM, *INTERVALS)
MAX_COMPARED = 4  # runs in a suggested comparison


@options.with_flags
def fit(
    data: options.Data,
    *,
    latents: Annotated[
        str | None, Option(help="Number of latents; a list such as 5,10,20 trains one each; default: 10.")
    ] = None,
    beta: Annotated[str | None, Option(help="Weight of the KL term; a list trains one model each.")] = None,
    learning_rate: Annotated[str, Option(help="Learning rate; a list trains one model each.")] = "1e-4",
    steps: Annotated[int | None, Option(help="Training steps; default: 5000.")] = None,
    epochs: Annotated[float | None, Option(help="Passes over the data, instead of steps.")] = None,
    batch: Annotated[int, Option(help="Batch size.")] = 64,
    seed: Annotated[str, Option(help="Random seed; a list such as 0,1,2 trains one model each.")] = "0",
    start: Annotated[
        str | None,
        Option(
            help="Start from the weights of this run (an id or a folder), with its latents and model.",
            autocompletion=run_ids,
        ),
    ] = None,
    overcomplete: Annotated[
        bool, Option("--overcomplete", help="Allow more latents than the data have dimensions.")
    ] = False,
    training: options.TrainingFlags,
    opened: options.DataFlags,
    tracker: options.Tracker = None,
    json: options.Json = False,
) -> None:
    """Train a VAE or an autoencoder. Reuses finished runs and resumes interrupted ones.

    Options that take a list train one model for each combination, together where that is faster.
    """
    from vaescope.data import open_dataset
    from vaescope.objectives import OBJECTIVES
    from vaescope.runs import FitOptions, fit_many
    from vaescope.training import Member

    if beta is not None and "beta" in training.tables["objective"]:
        raise ConfigurationError(f"give --beta or --set objective.beta, not both; got --beta {beta}.")
    training.refuse("gap", "fit")
    shown_in, keywords = training.part("tracker", tracker), training.keywords()
    new: set[str] = set()
    fit_options = FitOptions(
        batch=batch,
        steps=steps,
        epochs=epochs,
        start=start,
        overcomplete=overcomplete,
        tracker=shown_in,
        on_row=lambda row: new.add(row.run),
        **keywords,
    )
    sizes = [fit_options.default_latents()] if latents is None else numbers("latents", latents, int)
    seeds = numbers("seed", seed, int)
    betas = [None] if beta is None else numbers("beta", beta, float)
    rates = numbers("learning-rate", learning_rate, float)
    check_run_count({"latents": len(sizes), "beta": len(betas), "learning_rate": len(rates), "seed": len(seeds)})
    members = [
        Member(size, OBJECTIVES.resolve(training.objective_table(strength)), rate, number)
        for size, strength, rate, number in product(sizes, betas, rates, seeds)
    ]
    given = open_dataset(opened.open(data, training.tables["data"]))
    _print_fit(fit_many(given, members, fit_options), new, training.runs, json)


@options.with_flags
def resume(
    run: options.RunId,
    *,
    steps: Annotated[
        int | None, Option(help="Length of training, including the steps that are done; default: that of the run.")
    ] = None,
    data: Annotated[str | None, Option(help="The data of the run, if they are somewhere else now.")] = None,
    opened: options.EncodedDataFlags,
    device: options.Device = None,
    model: options.Factory = None,
    runs: options.Runs = "runs",
    tracker: options.Tracker = None,
    json: options.Json = False,
) -> None:
    """Train a run longer, or finish an interrupted run.

    The longer run is a new run, the one that `fit` makes from the start with as many steps.
    """
    from vaescope.runs import resume as resume_run

    options.use_factory(model, [run], runs)
    new: set[str] = set()
    found = resume_run(
        run,
        steps,
        data=opened.open_given(data),
        device=device,
        runs=runs,
        on_row=lambda row: new.add(row.run),
        tracker=tracker,
    )
    _print_fit([found], new, str(found.path.parent), json)


def _print_fit(trained: list[Run], new: set[str], folder: str, json: bool) -> None:
    """Print one run with the verdict on it, or a table of several, and what to do next; `new` are the ids of new runs.

    With `json`, print a row for each run.
    """
    from vaescope.runs import summary

    runs = list({run.id: run for run in trained}.values())
    rows = [summary(run) for run in runs]
    if json:
        print_json([{**row, "already_trained": row["id"] not in new} for row in rows])
        return
    where, ids = runs_option(folder), [run.id for run in runs]
    reused = [identity for identity in ids if identity not in new]
    if len(runs) == 1:
        _print_one(runs[0], rows[0])
    else:
        print_runs(rows, _columns(rows), Path(folder), "`vaescope runs --csv FILE` writes all")
    if reused:
        print_line(already_trained(len(reused), len(runs)))
    print_line(f"all settings: `vaescope runs show {ids[0]}{where}`")
    subjects = " ".join(ids) if len(ids) <= MAX_COMPARED else ids[0]
    print_line(f"next: `vaescope report {subjects}{where}`")


def _print_one(run: Run, row: Row) -> None:
    """Print the settings that are not defaults, the losses, and the verdict."""
    from vaescope.diagnosis import diagnose

    print_settings(run.id, {**_changed_settings(run, row), **_losses(row)})
    print_styled((diagnose(run).summary(), "bold"))


def _changed_settings(run: Run, row: Row) -> Row:
    """What the run is about, and the settings that differ from those of `fit` without options."""
    from vaescope.runs import FitOptions
    from vaescope.runs.record import TRAINING, RunRecord
    from vaescope.runs.rows import summary_row
    from vaescope.runs.store import data_of
    from vaescope.training import Member

    known = run.configuration
    given = FitOptions(overcomplete=known.architecture.overcomplete)
    (plain,) = given.configurations(data_of(run), [Member(known.member.latents)])
    defaults = summary_row(RunRecord(plain.id, TRAINING, plain.plain()), [])
    defaults.pop("overcomplete", None)
    changed = {name for name, value in row.items() if value != defaults.get(name)} - {*NOT_SETTINGS}
    return {
        name: value
        for name, value in row.items()
        if name in ALWAYS_SHOWN or (name in changed and not name.startswith(("train_", "test_")))
    }


def _losses(row: Row) -> Row:
    """The last values of the loss and its terms, of held-out items if there are any."""
    split = "test_" if "test_loss" in row else "train_"
    return {name: value for name, value in row.items() if name.startswith(split) and is_in_nats(name)}


def _columns(rows: list[Row]) -> list[str]:
    """The columns of a table of several runs: types, losses of held-out items if there are any, what varies."""
    names = columns_of(rows)
    hidden = "train_" if "test_loss" in names else "train_gradient_norm"
    always = ("id", *VARIABLE_TYPES, TYPES_ITEMS, TYPES_FROM)
    return [name for name in names if not name.startswith(hidden) and (name in always or varies(rows, name))]
