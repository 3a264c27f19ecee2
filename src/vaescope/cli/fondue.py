"""`vaescope fondue`: how many latents do these data need?"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vaescope.cli import options
from vaescope.cli.completion import of_kind, of_names
from vaescope.cli.output import check_file, print_json, print_rows, print_styled
from vaescope.cli.variants import choices
from vaescope.errors import ConfigurationError
from vaescope.tables import columns_of
from vaescope.terminal import print_line

if TYPE_CHECKING:
    from vaescope.sizing import Elbow, Fondue

BAR_WIDTH = 40  # characters
GAP_HELP = (
    f'Criterion for "too many latents": {choices("gap")} information (FONDUE_IB) cuts the data into blocks that are '
    "spread over it; for the larger numbers of the thesis, use sorted blocks: --set gap.cut=sorted."
)


@options.with_flags
def fondue(
    data: options.Data,
    *,
    gap: Annotated[str, Option(help=GAP_HELP, autocompletion=of_kind("gap"))] = "trace",
    threshold: Annotated[float | None, Option(help="Largest gap allowed; default: the gap's default.")] = None,
    init: Annotated[
        float | None, Option(help="Where the search starts; default: the intrinsic dimension of the data.")
    ] = None,
    seeds: Annotated[
        int | None, Option(help="Number of seeds; default: 3 where models train together, else 1.")
    ] = None,
    over: Annotated[str, Option(help="latents, or a strength such as beta (needs --latents).")] = "latents",
    latents: Annotated[int | None, Option(help="Number of latents of a search over a strength.")] = None,
    largest: Annotated[int | None, Option(help="Largest number of latents to try.")] = None,
    beta: Annotated[float | None, Option(help="Weight of the KL term.")] = None,
    learning_rate: Annotated[
        float | None, Option(help="Learning rate; default: 1e-4, or 1e-3 if an epoch has under 1500 steps.")
    ] = None,
    batch: Annotated[int | None, Option(help="Batch size; default: 64, or 16 below 25,000 items.")] = None,
    period: Annotated[
        int | None, Option(help="Steps between answers; default: an epoch, but at least 400 or 1500 steps.")
    ] = None,
    max_periods: Annotated[int, Option(help="Maximum number of periods, even if the answer changes.")] = 10,
    probe_items: Annotated[int, Option(help="Number of training items to measure gaps on.")] = 10_000,
    search: Annotated[
        str,
        Option(
            help="How sizes are chosen: rounds, interpolate (fewer models) or bisection (one at a time).",
            autocompletion=of_names("rounds", "interpolate", "bisection"),
        ),
    ] = "rounds",
    training: options.TrainingFlags,
    opening: options.DataFlags,
    check: Annotated[bool, Option("--check", help="Also train a few sizes fully to find the elbow.")] = False,
    check_model: Annotated[str, Option(help="Model that --check trains: vae or autoencoder.")] = "vae",
    check_steps: Annotated[int, Option(help="Training steps of each model of --check.")] = 5000,
    plot: Annotated[str | None, Option(help="Write a plot of the curves to this .html file.")] = None,
    json: options.Json = False,
) -> None:
    """Find how many latents a VAE needs for these data, without training any model to the end (FONDUE).

    Models of several sizes train for a few epochs; the answer is the largest size whose latents all stay in use.
    Reuses finished searches and resumes interrupted ones.
    Autoencoders have no gap: search with a VAE; its answer holds for autoencoders too.
    """
    from vaescope.data.sources import flags_of
    from vaescope.progress import announce
    from vaescope.runs import FitOptions
    from vaescope.sizing import default_sizes, elbow
    from vaescope.sizing import fondue as find

    keywords, objective = training.keywords(), training.objective_table(beta)
    if check and callable(keywords["model"]):
        raise ConfigurationError(f"--check trains registered models, got the factory --model {training.model}.")
    if check and over != "latents":
        raise ConfigurationError(f"--check needs --over latents, got --over {over}.")
    training.refuse("tracker", "fondue")
    check_file(plot, page=True)
    opened = opening.open(data, training.tables["data"])
    found = find(
        opened,
        gap=training.part("gap", gap),
        threshold=threshold,
        init=int(init) if init is not None and init.is_integer() else init,
        seeds=seeds,
        over=over,
        latents=latents,
        objective=objective,
        learning_rate=learning_rate,
        largest=largest,
        period=period,
        max_periods=max_periods,
        probe_items=probe_items,
        search=search,
        batch=batch,
        **keywords,
    )
    checked = None
    if check and found.latents:
        sizes = default_sizes(found.latents, found.dimensions)
        announce(
            f"checking {found.latents} latents: training {', '.join(map(str, sizes))} for {check_steps} steps each"
        )
        keywords = {**keywords, "model": check_model, "posterior": None}
        trained_as = FitOptions(steps=check_steps, **keywords)
        rate = float(found.settings["learning_rate"])
        checked = elbow(opened, sizes, found.latents, trained_as, objective=objective, learning_rate=rate)
    if plot is not None:
        from vaescope.reporting.page import write_plots
        from vaescope.reporting.sizing_plots import elbow_plot, fondue_plot

        plots = [fondue_plot(found), *([] if checked is None else [elbow_plot(checked)])]
        write_plots(plots, plot, f"How many latents for {found.data['name']}?")
    if json:
        print_json({**found.plain(), **({"elbow": checked.rows()} if checked else {})})
        return
    _print_fondue(found, checked)
    if plot is not None:
        print_line(f"plot: {plot}")
    if over == "latents" and found.latents:
        flags = [shlex.quote(word) for word in flags_of(opening.options())]
        words = ["vaescope fit", shlex.quote(data), *flags, f"--latents {found.latents}", *_fit_options(training, beta)]
        words += [f"--runs {shlex.quote(training.runs)}"] if training.runs != options.TrainingFlags.runs else []
        print_line(f"next: `{' '.join(words)}`")


def _print_fondue(found: Fondue, checked: Elbow | None) -> None:
    """Print the answer, the gaps as bars, and the elbow."""
    print_styled((found.summary(), "bold"))
    if found.dimension is not None:
        print_line(f"Intrinsic dimension of the data: {found.dimension:.3g}; the search started at {found.start:g}.")
    for line, style in _bars(found):
        print_styled((line, style))
    if len(found.answers) > 1:
        print_rows(found.rows())
    if checked is not None:
        print_styled((checked.summary(), "bold"))
        rows = checked.rows()
        names = [name for name in columns_of(rows) if any(row.get(name) is not None for row in rows)]
        print_rows(rows, names)


def _bars(found: Fondue) -> list[tuple[str, str]]:
    """One line per size: its gap as a bar, the threshold marked, long bars cut."""
    curve, limit = found.curve, found.threshold
    lowest = min(0.0, limit, *(row["gap"] for row in curve))
    highest = max(limit + 2 * (limit - lowest), lowest + 1e-9)
    mark = round(BAR_WIDTH * (limit - lowest) / (highest - lowest))
    lines = [(f"{found.over:>10}  {'gap':>8}  threshold {limit:g} at │", "dim")]
    for row in curve:
        length = min(BAR_WIDTH, max(0, round(BAR_WIDTH * (row["gap"] - lowest) / (highest - lowest))))
        bar = "█" * length + " " * (BAR_WIDTH - length)
        bar = bar[:mark] + "│" + bar[mark:] + ("…" if row["gap"] > highest else "")
        end = "  <- chosen" if found.over == "latents" and row["latents"] == found.latents else ""
        name, style = f"{row[found.over]:.3g}", "green" if row["gap"] <= limit else ""
        lines.append((f"{name:>10}  {row['gap']:>8.3f}  {bar}{end}", style))
    return lines


def _fit_options(training: options.TrainingFlags, beta: float | None) -> list[str]:
    """The options of `fit` for the model of the search."""
    default = options.TrainingFlags()
    words = []
    for name in ("model", "net", "posterior", "prior", "likelihood", "objective"):
        value = getattr(training, name)
        words += [f"--{name} {value}"] if value != getattr(default, name) else []
    words += [] if beta is None else [f"--beta {beta}"]
    return words + [f"--set {shlex.quote(text)}" for text in training.settings or [] if not text.startswith("gap.")]
