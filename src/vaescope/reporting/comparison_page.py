"""The page of several models: a table with intervals, plots, and how similar the models are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from vaescope.diagnosis.compare import Comparison
from vaescope.diagnosis.subject import NOT_A_RUN, History, history_of
from vaescope.markup import element
from vaescope.numerics.confidence import student_interval
from vaescope.reporting import sections
from vaescope.reporting.comparison_plots import rates_plot, types_over_strength_plot, types_plot
from vaescope.reporting.heatmaps import layer_plots, similarity_plot
from vaescope.reporting.loss_plots import losses_plot
from vaescope.reporting.page import page
from vaescope.runs import Run, summary
from vaescope.tables import table

# Columns that are results of a run rather than settings.
RESULTS = ("active", "mixed", "passive", "rate", "test_loss", "test_reconstruction")
IDENTITY = ("name", "id", "seed", "status", "step", "rate_low", "rate_high")
ALWAYS_SHOWN = ("model", "objective", "latents")

Row = Mapping[str, object]


def comparison_page(found: Comparison, runs: Sequence[Run | None]) -> str:
    """The whole page; `runs` are the runs of the compared models, None for codes."""
    reasons: dict[str, str] = {}
    histories: list[tuple[str, History]] = []
    rows: list[Row] = []
    for name, run, row in zip(found.names, runs, found.rows(), strict=True):
        history, reason = ([], f"{NOT_A_RUN}.") if run is None else history_of(run)
        histories.append((name, history))
        rows.append({**(summary(run) if run is not None and history else {}), **row})
        if reason:
            reasons[f"History of {name}"] = reason
    plots = [
        types_plot(rows),
        types_over_strength_plot(rows),
        rates_plot(rows),
        losses_plot(histories),
        similarity_plot(found),
        *layer_plots(found),
    ]
    models = table(found.rows(), "One row per model; the rate with its 95% interval over the encoded items")
    parts = [("cards", "Findings", sections.cards(found.cards)), ("models", "Models", models)]
    over_seeds = seed_rows(rows)
    if over_seeds:
        caption = "Means over runs that differ only in their seed, with Student's 95% interval"
        parts.append(("seeds", "Over seeds", table(over_seeds, caption)))
    parts.append(("plots", "Plots", sections.plots([plot for plot in plots if plot is not None])))
    return page(
        f"{len(found.names)} models compared",
        element("h1", f"vaescope report of {len(found.names)} models"),
        element("p", f"{found.summary()}.", class_="verdict"),
        *[sections.section(*part) for part in parts],
        sections.missing_parts(reasons),
        navigation=[(identity, title) for identity, title, _ in parts],
    )


def seed_rows(rows: Sequence[Row]) -> list[dict[str, object]]:
    """One row per setting that was trained with several seeds: its results as means with intervals."""
    groups: dict[tuple[tuple[str, object], ...], list[Row]] = {}
    for row in rows:
        settings = tuple((name, value) for name, value in row.items() if name not in IDENTITY and not _is_result(name))
        groups.setdefault(settings, []).append(row)
    differing = {name for row in rows for name in row if len({other.get(name) for other in rows}) > 1}
    found = []
    for settings, members in groups.items():
        if len(members) < 2 or len({row.get("seed") for row in members}) < 2:
            continue
        shown = {name: value for name, value in settings if name in ALWAYS_SHOWN}
        shown |= {name: value for name, value in settings if name in differing}
        shown["seeds"] = len(members)
        for name in RESULTS:
            values = [value for row in members if isinstance(value := row.get(name), int | float)]
            if len(values) == len(members):
                shown[name] = interval_text(values)
        found.append(shown)
    return found


def interval_text(values: Sequence[float]) -> str:
    """The mean with Student's 95% interval."""
    low, high = student_interval(values)
    return f"{fmean(values):.4g} ({low:.4g} to {high:.4g})"


def _is_result(name: str) -> bool:
    return name in RESULTS or name.startswith(("train_", "test_"))
