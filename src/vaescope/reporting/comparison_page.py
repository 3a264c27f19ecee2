"""Several models as a page: a table with intervals, small multiples, and how alike they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from vaescope.diagnosis.compare import Comparison
from vaescope.diagnosis.subject import history_of
from vaescope.markup import element
from vaescope.numerics.confidence import student_interval
from vaescope.reporting import sections
from vaescope.reporting.comparison_plots import (
    layer_plots,
    losses_plot,
    rates_plot,
    similarity_plot,
    types_over_strength_plot,
    types_plot,
)
from vaescope.reporting.page import page
from vaescope.runs import Run, summary
from vaescope.tables import table

# What comes of a run, rather than what it was made by.
OUTCOMES = ("active", "mixed", "passive", "rate", "test_loss", "test_reconstruction")
OWN = ("name", "id", "seed", "status", "step", "rate_low", "rate_high")


def several_page(found: Comparison, runs: Sequence[Run | None]) -> str:
    """The whole page; `runs` are those of the compared subjects, None for codes."""
    reasons: dict[str, str] = {}
    histories, rows = [], []
    for name, run, row in zip(found.names, runs, found.rows(), strict=True):
        known, reason = ([], "these are codes, not a run.") if run is None else history_of(run)
        histories.append((name, known))
        rows.append({**({} if run is None or not known else summary(run)), **row})
        if reason:
            reasons[f"History of {name}"] = reason
    drawn = [
        types_plot(rows),
        types_over_strength_plot(rows),
        rates_plot(rows),
        losses_plot(histories),
        similarity_plot(found),
        *layer_plots(found),
    ]
    over_seeds = seed_rows(rows)
    parts: list[tuple[str, str, Any]] = [
        ("cards", "What it means", sections.cards(found.cards)),
        ("models", "Models", table(found.rows(), "Each model; the rate with its 95% interval over the encoded items")),
    ]
    if over_seeds:
        words = "Means over runs that differ by seed alone, with Student's 95% interval"
        parts.append(("seeds", "Over seeds", table(over_seeds, words)))
    parts.append(("plots", "Plots", sections.plots([plot for plot in drawn if plot is not None])))
    return page(
        f"{len(found.names)} models compared",
        element("h1", f"vaescope report of {len(found.names)} models"),
        element("p", f"{found.summary()}.", class_="verdict"),
        *[sections.section(*part) for part in parts],
        sections.left_out(reasons),
        navigation=[(identity, title) for identity, title, _ in parts],
    )


def seed_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row for each setting that was trained with several seeds: the means of what came of it, with intervals."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        made_by = [(name, value) for name, value in row.items() if name not in OWN and not _is_outcome(name)]
        groups.setdefault(tuple(made_by), []).append(row)
    found = []
    for settings, own in groups.items():
        if len(own) < 2 or len({row.get("seed") for row in own}) < 2:
            continue
        told: dict[str, Any] = {name: value for name, value in settings if name in ("model", "objective", "latents")}
        told |= {name: value for name, value in settings if _varies(rows, name)}
        told["seeds"] = len(own)
        for name in OUTCOMES:
            values: list[float] = [row[name] for row in own if isinstance(row.get(name), int | float)]
            if len(values) == len(own):
                told[name] = interval_text(values)
        found.append(told)
    return found


def interval_text(values: Sequence[float]) -> str:
    """The mean, and from where to where it may lie by what the seeds spread."""
    low, high = student_interval(values)
    return f"{fmean(values):.4g} ({low:.4g} to {high:.4g})"


def _is_outcome(name: str) -> bool:
    return name in OUTCOMES or name.startswith(("train_", "test_"))


def _varies(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    return len({row.get(name) for row in rows}) > 1
