"""`vaescope fondue`: how many latents do these data need?"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from vaescope.cli import options
from vaescope.cli.files import check_file
from vaescope.cli.parts import PartOptions, open_data
from vaescope.cli.variants import choices
from vaescope.errors import ConfigurationError

if TYPE_CHECKING:
    from vaescope.sizing import Elbow, Fondue

BAR_WIDTH = 40  # characters
GAP_HELP = f'Criterion for "too many latents": {choices("gap")}'
FIT_DEFAULTS = {"model": "vae", "objective": "beta"}


def fondue(
    data: options.Data,
    gap: Annotated[str, typer.Option(help=GAP_HELP)] = "trace",
    threshold: Annotated[float | None, typer.Option(help="Largest gap allowed; default: the gap's default.")] = None,
    init: Annotated[
        float | None, typer.Option(help="Where the search starts; default: the intrinsic dimension of the data.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Number of seeds; default: 3 where models train together, else 1.")
    ] = None,
    over: Annotated[str, typer.Option(help="latents, or a strength such as beta (needs --latents).")] = "latents",
    latents: Annotated[int | None, typer.Option(help="Number of latents of a search over a strength.")] = None,
    largest: Annotated[int | None, typer.Option(help="Largest number of latents to try.")] = None,
    model: options.Model = "vae",
    net: options.Net = None,
    likelihood: options.Likelihood = None,
    posterior: options.Posterior = None,
    prior: options.Prior = None,
    objective: options.Objective = "beta",
    beta: Annotated[float | None, typer.Option(help="Weight of the KL term.")] = None,
    warm_up: options.WarmUp = None,
    free_bits: options.FreeBits = None,
    optimiser: options.Optimiser = "adam",
    learning_rate: Annotated[
        float | None, typer.Option(help="Learning rate; default: 1e-4, or 1e-3 if an epoch has under 1500 steps.")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Batch size; default: 64, or 16 below 25,000 items.")] = None,
    period: Annotated[
        int | None, typer.Option(help="Steps between answers; default: an epoch, at least some hundred steps.")
    ] = None,
    max_periods: Annotated[int, typer.Option(help="Maximum number of periods, even if the answer changes.")] = 10,
    probe_items: Annotated[int, typer.Option(help="Number of training items to measure gaps on.")] = 10_000,
    held_out: options.HeldOut = 0.1,
    precision: options.Precision = "float32",
    initialisation: options.Initialisation = None,
    device: options.Device = None,
    check: Annotated[bool, typer.Option("--check", help="Also train a few sizes fully to find the elbow.")] = False,
    check_model: Annotated[str, typer.Option(help="Model that --check trains: vae or autoencoder.")] = "vae",
    check_steps: Annotated[int, typer.Option(help="Training steps of each model of --check.")] = 5000,
    plot: Annotated[str | None, typer.Option(help="Write a plot of the curves to this .html file.")] = None,
    runs: options.Runs = "runs",
    settings: options.PartSettings = None,
    json: options.Json = False,
) -> None:
    """Find how many latents a VAE needs for these data, without training any model to the end (FONDUE).

    Models of several sizes train for a few epochs; the answer is the largest size whose latents all stay in use.
    Reuses finished searches and resumes interrupted ones. Autoencoders have no posterior variance and no gap.
    """
    from vaescope.cli.tables import print_json
    from vaescope.progress import announce
    from vaescope.runs import FitOptions
    from vaescope.sizing import default_sizes, elbow
    from vaescope.sizing import fondue as find

    given = PartOptions.parse(settings or [])
    _check_before(check, over, plot)
    subject = open_data(data, given)
    chosen_net, chosen_prior = given.part("net", net), given.part("prior", prior)
    chosen_likelihood, chosen_optimiser = given.part("likelihood", likelihood), given.part("optimiser", optimiser)
    chosen_objective = given.objective(objective, beta=beta, warm_up=warm_up, free_bits=free_bits)
    found = find(
        subject,
        gap=given.part("gap", gap) or gap,
        threshold=threshold,
        init=int(init) if init is not None and init.is_integer() else init,
        seeds=seeds,
        over=over,
        latents=latents,
        objective=chosen_objective,
        learning_rate=learning_rate,
        largest=largest,
        period=period,
        max_periods=max_periods,
        probe_items=probe_items,
        model=given.part("model", model) or model,
        net=chosen_net,
        posterior=given.part("posterior", posterior),
        prior=chosen_prior,
        likelihood=chosen_likelihood,
        initialisation=initialisation,
        optimiser=chosen_optimiser or optimiser,
        batch=batch,
        precision=precision,
        held_out=held_out,
        device=device,
        runs=runs,
    )
    checked = None
    if check and found.latents:
        sizes = default_sizes(found.latents, found.dimensions)
        announce(
            f"checking {found.latents} latents: training {', '.join(map(str, sizes))} for {check_steps} steps each"
        )
        trained_as = FitOptions(
            model=check_model,
            net=chosen_net,
            prior=chosen_prior,
            likelihood=chosen_likelihood,
            initialisation=initialisation,
            optimiser=chosen_optimiser or optimiser,
            steps=check_steps,
            precision=precision,
            held_out=held_out,
            device=device,
            runs=runs,
        )
        rate = float(found.settings["learning_rate"])
        checked = elbow(subject, sizes, found.latents, trained_as, objective=chosen_objective, learning_rate=rate)
    if plot is not None:
        _draw(found, checked, plot)
    if json:
        print_json({**found.plain(), **({"elbow": checked.rows()} if checked else {})})
        return
    _show(found, checked)
    named = {"model": model, "net": net, "posterior": posterior, "prior": prior, "likelihood": likelihood}
    _advise(found, data, _fit_options({**named, "objective": objective, "beta": beta}, settings or []), plot)


def _check_before(check: bool, over: str, plot: str | None) -> None:
    """Refuse at the start what would fail at the end."""
    if check and over != "latents":
        raise ConfigurationError(f"--check needs --over latents, got --over {over}.")
    check_file(plot)


def _draw(found: Fondue, checked: Elbow | None, path: str) -> None:
    from vaescope.reporting.page import write_plots
    from vaescope.reporting.sizing_plots import elbow_plot, fondue_plot

    plots = [fondue_plot(found), *([] if checked is None else [elbow_plot(checked)])]
    write_plots(plots, path, f"How many latents for {found.data['name']}?")


def _show(found: Fondue, checked: Elbow | None) -> None:
    """Print the answer, the gaps as bars, and the elbow."""
    from rich.console import Console
    from rich.text import Text

    from vaescope.cli.tables import columns_of, print_table

    console = Console(highlight=False, soft_wrap=True)
    console.print(Text(found.summary(), style="bold"))
    if found.dimension is not None:
        console.print(f"Intrinsic dimension of the data: {found.dimension:.3g}; the search started at {found.start:g}.")
    for line, style in _bars(found):
        console.print(Text(line, style=style))
    if len(found.answers) > 1:
        rows = found.rows()
        print_table(list(rows[0]), [list(row.values()) for row in rows])
    if checked is not None:
        console.print(Text(checked.summary(), style="bold"))
        rows = checked.rows()
        names = [name for name in columns_of(rows) if any(row.get(name) is not None for row in rows)]
        print_table(names, [[row.get(name) for name in names] for row in rows])


def _bars(found: Fondue) -> list[tuple[str, str]]:
    """One line per size: its gap as a bar, the threshold marked, long bars cut."""
    curve, limit = found.curve, found.threshold
    lowest = min(0.0, limit, *(row["gap"] for row in curve))
    highest = max(limit + 2 * (limit - lowest), lowest + 1e-9)
    mark = round(BAR_WIDTH * (limit - lowest) / (highest - lowest))
    names = [f"{row[found.over]:.3g}" for row in curve]
    lines = [(f"{found.over:>10}  {'gap':>8}  threshold {limit:g} at │", "dim")]
    for name, row in zip(names, curve, strict=True):
        length = min(BAR_WIDTH, max(0, round(BAR_WIDTH * (row["gap"] - lowest) / (highest - lowest))))
        bar = "█" * length + " " * (BAR_WIDTH - length)
        bar = bar[:mark] + "│" + bar[mark:] + ("…" if row["gap"] > highest else "")
        within = row["gap"] <= limit
        chosen = found.over == "latents" and row["latents"] == found.latents
        end = "  <- chosen" if chosen else ""
        lines.append((f"{name:>10}  {row['gap']:>8.3f}  {bar}{end}", "green" if within else ""))
    return lines


def _fit_options(named: dict[str, object], settings: list[str]) -> list[str]:
    """The options of `fit` for the model of the search."""
    given_parts = [f"--{name} {value}" for name, value in named.items() if value not in (None, FIT_DEFAULTS.get(name))]
    return given_parts + [f"--set {shlex.quote(text)}" for text in settings if not text.startswith("gap.")]


def _advise(found: Fondue, data: str, options: list[str], plot: str | None) -> None:
    """Print the command that trains the answer."""
    if plot is not None:
        print(f"plot: {plot}")
    if found.over == "latents" and found.latents:
        words = " ".join(["vaescope fit", shlex.quote(data), f"--latents {found.latents}", *options])
        print(f"train it with `{words}`")
