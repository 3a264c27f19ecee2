"""`vaescope fondue`: how many latents do these data need?"""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import typer

from vaescope.cli import parts
from vaescope.cli.files import check_file
from vaescope.cli.parts import given, opened, parse_settings, part, table
from vaescope.errors import ConfigurationError

BAR = 40  # characters

USUAL = {"model": "vae", "objective": "beta"}  # what `fit` takes without being told


def fondue(
    data: Annotated[str, typer.Argument(help="A name (see `vaescope datasets`), or a path to your own data.")],
    gap: Annotated[str, typer.Option(help="trace, dimension, information: what tells too many latents.")] = "trace",
    threshold: Annotated[float | None, typer.Option(help="Largest gap allowed; the gap's own when left out.")] = None,
    init: Annotated[float | None, typer.Option(help="Where to begin; the data's dimension when left out.")] = None,
    seeds: Annotated[int | None, typer.Option(help="3 where models train together, else 1, when left out.")] = None,
    over: Annotated[str, typer.Option(help="latents, or a strength such as beta, at --latents.")] = "latents",
    latents: Annotated[int | None, typer.Option(help="Number of latents, for a search over a strength.")] = None,
    largest: Annotated[int | None, typer.Option(help="Try no more latents than this.")] = None,
    model: Annotated[str, typer.Option(help=f"{parts.MODELS}.")] = "vae",
    net: Annotated[str | None, typer.Option(help=parts.NETS)] = None,
    likelihood: Annotated[str | None, typer.Option(help=parts.LIKELIHOODS)] = None,
    posterior: Annotated[str | None, typer.Option(help=f"{parts.POSTERIORS}.")] = None,
    prior: Annotated[str | None, typer.Option(help=parts.PRIORS)] = None,
    objective: Annotated[str, typer.Option(help=parts.OBJECTIVES)] = "beta",
    beta: Annotated[float | None, typer.Option(help="Weight of the rate.")] = None,
    warm_up: Annotated[float | None, typer.Option(help=parts.WARM_UP)] = None,
    free_bits: Annotated[float | None, typer.Option(help=parts.FREE_BITS)] = None,
    optimiser: Annotated[str, typer.Option(help=parts.OPTIMISERS)] = "adam",
    learning_rate: Annotated[
        float | None, typer.Option(help="1e-4, or 1e-3 for epochs below 1500 steps, when left out.")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="64, or 16 below 25,000 items, when left out.")] = None,
    period: Annotated[
        int | None, typer.Option(help="Steps between answers; an epoch, and some hundreds, when left out.")
    ] = None,
    most_periods: Annotated[int, typer.Option(help="Stop here even if the answer still moves.")] = 10,
    probe_items: Annotated[int, typer.Option(help="Training items that gaps are measured on.")] = 10_000,
    held_out: Annotated[float, typer.Option(help="Share of items kept out of training.")] = 0.1,
    precision: Annotated[str, typer.Option(help=parts.PRECISIONS)] = "float32",
    initialisation: Annotated[str | None, typer.Option(help=parts.INITIALISATIONS)] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda; cuda where there is one when left out.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Also train a few sizes fully, look for the elbow.")] = False,
    check_model: Annotated[str, typer.Option(help="vae, autoencoder: what --check trains.")] = "vae",
    check_steps: Annotated[int, typer.Option(help="Steps of each model that --check trains.")] = 5000,
    plot: Annotated[str | None, typer.Option(help="Draw the curves into this .html file.")] = None,
    runs: Annotated[str, typer.Option(help="Folder that searches and runs are kept in.")] = "runs",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any option of a part, as PART.OPTION=VALUE: --set gap.k=10"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Find how many latents a VAE needs for these data, without training any to the end (FONDUE).

    Models of several sizes train for a few epochs; the largest size whose latents all stay in use is the answer.
    Asked twice, it trains once; stopped, the same command goes on.
    """
    from vaescope.cli.tables import print_json
    from vaescope.sizing import fondue as find

    options = parse_settings(settings or [])
    _check_before(check, over, plot)
    subject = opened(data, options["data"]) if options["data"] else data
    shared: dict[str, Any] = {
        "net": part("net", net, options),
        "prior": part("prior", prior, options),
        "likelihood": part("likelihood", likelihood, options),
        "optimiser": part("optimiser", optimiser, options),
        "objective": table(
            objective, {**options["objective"], **given(beta=beta, warm_up=warm_up, free_bits=free_bits)}
        ),
        **{"precision": precision, "held_out": held_out, "initialisation": initialisation},
        **{"device": device, "runs": runs},
    }
    asked: dict[str, Any] = {
        "gap": part("gap", gap, options),
        "posterior": part("posterior", posterior, options),
        **{
            "model": part("model", model, options),
            "threshold": threshold,
            "seeds": seeds,
            "over": over,
            "latents": latents,
        },
        **{
            "init": int(init) if init is not None and init.is_integer() else init,
            "largest": largest,
            "learning_rate": learning_rate,
            "period": period,
        },
        **{"most_periods": most_periods, "probe_items": probe_items},
    }
    found = find(subject, **shared, **asked, **given(batch=batch))
    checked = _checked(subject, found, check_model, check_steps, shared) if check and found.latents else None
    if plot is not None:
        _draw(found, checked, plot)
    if json:
        print_json({**found.plain(), **({"elbow": checked.rows()} if checked else {})})
        return
    _show(found, checked)
    named = {"model": model, "net": net, "posterior": posterior, "prior": prior, "likelihood": likelihood}
    _advise(found, data, _same_model({**named, "objective": objective, "beta": beta}, settings or []), plot)


def _check_before(check: bool, over: str, plot: str | None) -> None:
    """What would fail at the end is refused at the beginning."""
    if check and over != "latents":
        raise ConfigurationError(f"--check looks at numbers of latents, and needs --over latents, got {over!r}.")
    check_file(plot)


def _checked(subject: Any, found: Any, model: str, steps: int, shared: dict[str, Any]) -> Any:
    """The elbow among sizes around the answer, trained as the search was."""
    from vaescope.progress import announce
    from vaescope.sizing import default_sizes, elbow

    sizes, rate = default_sizes(found.latents, found.dimensions), found.settings["learning_rate"]
    announce(f"checking {found.latents} latents: training {', '.join(map(str, sizes))} for {steps} steps each")
    return elbow(subject, sizes, found.latents, model=model, steps=steps, learning_rate=rate, **shared)


def _draw(found: Any, checked: Any, path: str) -> None:
    from vaescope.reporting.page import write_plots
    from vaescope.reporting.sizing_plots import elbow_plot, fondue_plot

    plots = [fondue_plot(found), *([] if checked is None else [elbow_plot(checked)])]
    write_plots(plots, path, f"How many latents for {found.data['name']}?")


def _show(found: Any, checked: Any) -> None:
    """The answer, the curve as bars, and the elbow."""
    from rich.console import Console
    from rich.text import Text

    from vaescope.cli.tables import columns_of, print_table

    console = Console(highlight=False, soft_wrap=True)
    console.print(Text(found.summary(), style="bold"))
    if found.dimension is not None:
        console.print(f"The data's intrinsic dimension is {found.dimension:.3g}; the search began at {found.start:g}.")
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


def _bars(found: Any) -> list[tuple[str, str]]:
    """The gap of each size as a bar, cut where it is far above the threshold, which is marked."""
    curve, limit = found.curve, found.threshold
    lowest = min(0.0, limit, *(row["gap"] for row in curve))
    highest = max(limit + 2 * (limit - lowest), lowest + 1e-9)
    mark = round(BAR * (limit - lowest) / (highest - lowest))
    names = [f"{row[found.over]:.3g}" for row in curve]
    lines = [(f"{found.over:>10}  {'gap':>8}  threshold {limit:g} at │", "dim")]
    for name, row in zip(names, curve, strict=True):
        length = min(BAR, max(0, round(BAR * (row["gap"] - lowest) / (highest - lowest))))
        bar = "█" * length + " " * (BAR - length)
        bar = bar[:mark] + "│" + bar[mark:] + ("…" if row["gap"] > highest else "")
        within = row["gap"] <= limit
        chosen = found.over == "latents" and row["latents"] == found.latents
        end = "  <- chosen" if chosen else ""
        lines.append((f"{name:>10}  {row['gap']:>8.3f}  {bar}{end}", "green" if within else ""))
    return lines


def _same_model(named: dict[str, Any], settings: list[str]) -> list[str]:
    """The options of `fit` that train what was searched with; a gap is no part of it."""
    given_parts = [f"--{name} {value}" for name, value in named.items() if value not in (None, USUAL.get(name))]
    return given_parts + [f"--set {shlex.quote(text)}" for text in settings if not text.startswith("gap.")]


def _advise(found: Any, data: str, options: list[str], plot: str | None) -> None:
    """What to do next, with the same model."""
    if plot is not None:
        print(f"drawn in {plot}")
    if found.over == "latents" and found.latents:
        words = " ".join(["vaescope fit", shlex.quote(data), f"--latents {found.latents}", *options])
        print(f"train it with `{words}`")
