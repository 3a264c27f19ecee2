"""Plots of several models: distortion against rate, types of latents, and losses.

Rows are those of `runs.summary`, with a `name` if it differs from the id; codes without a run have fewer
columns.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from vaescope.numerics.variable_type_names import ACTIVE, PASSIVE, VARIABLE_TYPES
from vaescope.objectives import OBJECTIVES
from vaescope.reporting.downsample import SPLIT_NAMES, TEST, TRAIN, Series, is_finite, series
from vaescope.reporting.history_plots import STEP_TITLE
from vaescope.reporting.model_style import model_style
from vaescope.reporting.plots import Plot
from vaescope.reporting.style import (
    FONT_SIZE,
    GREY,
    TYPE_STYLES,
    axis_scale,
    round_value,
    set_layout,
    shorten,
    type_label,
)
from vaescope.runs.probes import History

MARGINS, HEIGHT, BAR, MIN_BAR, MAX_BARS_HEIGHT, LEGEND_ENTRY = 110, 420, 30, 10, 1500, 18  # pixels
MAX_NAMED = 12  # maximum number of models with a name each in the legend
MAX_NAME_LENGTH = 20  # characters next to a bar, in a legend or above a small panel
MAX_PANELS = 12
PANEL = 130  # pixels
MAX_PANEL_POINTS = 150  # per line
MAX_TICKS = 8

Row = Mapping[str, Any]


def rates_plot(rows: Sequence[Row]) -> Plot | None:
    """Distortion against rate at the end of each run; None if no run has both.

    The distortion is the reconstruction term, -log p(x|z); runs must have one likelihood. The values are those on
    held-out items if every run has them, else on training items.
    """
    ended = [row for row in rows if _final_terms(row, TEST) or _final_terms(row, TRAIN)]
    split = TEST if all(_final_terms(row, TEST) for row in ended) else TRAIN
    points = {place: terms for place, row in enumerate(rows) if (terms := _final_terms(row, split)) is not None}
    if not points:
        return None
    return _rate_distortion(rows, points, "distortion (nats)", f" on {SPLIT_NAMES[split]}", {"split": split})


def measured_rates_plot(rows: Sequence[Row], errors: Sequence[float | None]) -> Plot | None:
    """The mean squared error of each model against its rate, on the items of the comparison; None if no model has both.

    It compares models whose reconstruction terms differ, or have none.
    """
    points = {
        place: (round_value(row["rate"]), round_value(error))
        for place, (row, error) in enumerate(zip(rows, errors, strict=True))
        if is_finite(error) and is_finite(row.get("rate"))
    }
    return _rate_distortion(rows, points, "mean squared error", " on the same items", {}) if points else None


def _rate_distortion(
    rows: Sequence[Row], points: Mapping[int, tuple[float, float]], axis: str, where: str, column: Row
) -> Plot:
    """Rates and distortions by the place of the model; few models have their names in the legend."""
    named = len(points) <= MAX_NAMED
    figure = go.Figure()
    set_layout(figure, HEIGHT + (LEGEND_ENTRY * math.ceil(len(points) / 2) if named else 0), legend=named)
    for place, (rate, distortion) in points.items():
        style = model_style(place)
        figure.add_scatter(
            x=[rate],
            y=[distortion],
            name=shorten(_name(rows[place])),
            mode="markers",
            marker={"size": 13, "color": style.colour, "symbol": style.symbol.plotly},
            hovertemplate=f"{_details(rows[place])}<br>rate %{{x:.4g}} nats<br>{axis} %{{y:.4g}}<extra></extra>",
            cliponaxis=False,
        )
    figure.update_xaxes(title_text="rate (nats)", **axis_scale(rate for rate, _ in points.values()))
    figure.update_yaxes(title_text=axis, **axis_scale(distortion for _, distortion in points.values()))
    ends = [pick(points, key=lambda place: points[place][0]) for pick in (min, max)]
    low, high = (
        f"{points[place][0]:.4g} nats ({_name(rows[place])}, {axis.partition(' (')[0]} {points[place][1]:.4g})"
        for place in ends
    )
    sentence = f"The rate{where} ranges from {low} to {high}."
    if len(points) == 1:
        sentence = f"The rate{where} is {low}."
    shown = [
        {"name": _name(rows[place]), **column, "rate": rate, axis.partition(" (")[0].replace(" ", "_"): distortion}
        for place, (rate, distortion) in points.items()
    ]
    return Plot("Distortion and rate", sentence, figure, shown)


def types_over_strength_plot(rows: Sequence[Row]) -> Plot | None:
    """Mean counts of types against the strength that differs between runs, with the range over runs.

    None unless exactly one strength of the objectives differs, and if no run has types.
    """
    typed = [row for row in rows if _has_types(row)]
    known = {name: {row[name] for row in typed if isinstance(row.get(name), int | float)} for name in _strengths()}
    differing = [name for name, values in known.items() if len(values) > 1]
    if len(differing) != 1:
        return None
    (name,) = differing
    values = sorted({row[name] for row in typed if name in row})
    groups = [[row for row in typed if row.get(name) == value] for value in values]
    shown = [{name: value, **_count_statistics(group)} for value, group in zip(values, groups, strict=True)]
    figure = go.Figure()
    set_layout(figure, HEIGHT, legend=True)
    for kind in VARIABLE_TYPES:
        style, least, most = TYPE_STYLES[kind], f"{kind}_least", f"{kind}_most"
        figure.add_scatter(
            x=values,
            y=[row[kind] for row in shown],
            name=type_label(kind),
            mode="lines+markers",
            line={"color": style.colour, "width": 2, "dash": style.dash},
            marker={"symbol": style.symbol, "size": 10},
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [row[most] - row[kind] for row in shown],
                "arrayminus": [row[kind] - row[least] for row in shown],
                "width": 5,
            },
            customdata=[[row[least], row[most], row["runs"]] for row in shown],
            hovertemplate=(
                f"{name} %{{x:g}}: %{{y:.3g}} {kind} on average, %{{customdata[0]}} to %{{customdata[1]}} over "
                "%{customdata[2]} runs<extra></extra>"
            ),
        )
    words = name.replace("_", " ")
    # Strengths are often powers of 2.
    figure.update_xaxes(title_text=words, zeroline=False, type="log" if min(values) > 0 else "linear")
    if len(values) <= MAX_TICKS:
        figure.update_xaxes(tickmode="array", tickvals=values, ticktext=[f"{value:g}" for value in values])
    figure.update_yaxes(title_text="number of latents", rangemode="tozero")
    first, last = (", ".join(f"{row[kind]:.3g} {kind}" for kind in VARIABLE_TYPES) for row in (shown[0], shown[-1]))
    sentence = f"Average number of latents: {first} at {words} {values[0]:g}; {last} at {words} {values[-1]:g}."
    return Plot(f"Types over {words}", sentence, figure, shown)


def types_plot(rows: Sequence[Row]) -> Plot | None:
    """The number of latents of each type in every run; None if no run has types."""
    typed = [row for row in rows if _has_types(row)]
    if not typed:
        return None
    names = [_name(row) for row in typed]
    figure = go.Figure()
    bar = min(BAR, max(MIN_BAR, MAX_BARS_HEIGHT // len(typed)))
    set_layout(figure, bar * len(typed) + MARGINS, legend=True, l=10)
    for kind in VARIABLE_TYPES:
        style = TYPE_STYLES[kind]
        figure.add_bar(
            x=[row[kind] for row in typed],
            y=list(range(len(names))),
            orientation="h",
            name=type_label(kind),
            customdata=[_details(row) for row in typed],
            marker={"color": style.colour, "line": {"color": style.colour, "width": 1}, "pattern": style.fill()},
            hovertemplate=f"%{{customdata}}<br>%{{x}} {kind}<extra></extra>",
        )
    figure.update_layout(barmode="stack", bargap=0.25)
    figure.update_xaxes(title_text="number of latents", tickformat="d")
    figure.update_yaxes(autorange="reversed", showgrid=False, zeroline=False)
    if bar == BAR:
        labels = [model_style(rows.index(row)).tick(shorten(_name(row), MAX_NAME_LENGTH)) for row in typed]
        figure.update_yaxes(tickvals=list(range(len(names))), ticktext=labels)
    else:
        figure.update_yaxes(title_text="model")
    active, passive = [row[ACTIVE] for row in typed], fmean(row[PASSIVE] for row in typed)
    span = str(active[0]) if min(active) == max(active) else f"{min(active)} to {max(active)}"
    sentence = f"{len(typed)} models with {span} active latents and, on average, {passive:.3g} passive latents."
    counts = [{"name": _name(row), **{kind: row[kind] for kind in VARIABLE_TYPES}} for row in typed]
    return Plot("Types of latents", sentence, figure, counts)


def losses_plot(histories: Sequence[tuple[str, History]], *, comparable: bool) -> Plot | None:
    """The loss of each model on one scale; None if no history has a loss.

    It is the loss on held-out items if every run has it, else the loss on training items.

    Args:
        histories: The name and the history of each model; an empty history for other models than runs.
        comparable: Whether the losses measure the same, so that they can be ranked.
    """
    known = [history for _, history in histories if any("loss" in row for row in history)]
    split = TEST if all(series(history, TEST, "loss").steps for history in known) else TRAIN
    found = {place: series(history, split, "loss", MAX_PANEL_POINTS) for place, (_, history) in enumerate(histories)}
    losses = {place: points for place, points in found.items() if points.steps}
    if not losses:
        return None
    names = [name for name, _ in histories]
    best = min(losses, key=lambda place: losses[place].values[-1]) if comparable else None
    few = len(losses) <= MAX_PANELS
    figure = _small_multiples(losses, names, comparable) if few else _overlay(losses, names, best)
    if comparable or not few:
        figure.update_yaxes(**axis_scale(value for points in losses.values() for value in points.values))
    missing = len(histories) - len(losses)
    without = f"; {missing} without a history" if missing else ""
    if best is None:
        sentence = (
            f"Each loss on {SPLIT_NAMES[split]}, on a scale of its own: the objectives or data differ, so the losses "
            f"cannot be compared{without}."
        )
    else:
        sentence = (
            f"On {SPLIT_NAMES[split]}, {names[best]} has the lowest final loss of {len(losses)} runs, "
            f"{losses[best].values[-1]:.4g} nats{without}."
        )
    rows = [
        {"name": names[place], "split": split, "step": step, "loss": value}
        for place, points in losses.items()
        for step, value in zip(*points, strict=True)
    ]
    return Plot("Losses", sentence, figure, rows)


def _name(row: Row) -> str:
    return str(row.get("name", row.get("id", "")))


def _details(row: Row) -> str:
    """The name and the settings that distinguish runs, for hovering."""
    names = ("objective", *_strengths(), "latents", "seed")
    return "<br>".join([_name(row), ", ".join(f"{name} {row[name]}" for name in names if name in row)])


def _final_terms(row: Row, split: str) -> tuple[float, float] | None:
    """The last rate and reconstruction, if both are finite."""
    rate, reconstruction = row.get(f"{split}_rate"), row.get(f"{split}_reconstruction")
    if not (is_finite(rate) and is_finite(reconstruction)):
        return None
    return round_value(rate), round_value(reconstruction)


def _has_types(row: Row) -> bool:
    return all(isinstance(row.get(kind), int) for kind in VARIABLE_TYPES)


def _strengths() -> list[str]:
    """The names of all fields of objectives, beta first."""
    fields = [field.name for objective in OBJECTIVES.values() for field in dataclasses.fields(objective)]
    return sorted(dict.fromkeys(fields), key=lambda name: name != "beta")


def _count_statistics(rows: Sequence[Row]) -> dict[str, float]:
    """The mean, least and greatest count of each type."""
    statistics: dict[str, float] = {"runs": len(rows)}
    for kind in VARIABLE_TYPES:
        counts = [row[kind] for row in rows]
        statistics |= {kind: fmean(counts), f"{kind}_least": min(counts), f"{kind}_most": max(counts)}
    return statistics


def _small_multiples(losses: dict[int, Series], names: Sequence[str], comparable: bool) -> go.Figure:
    """One panel per run, two in a row; all on one scale if the losses are comparable."""
    lines = math.ceil(len(losses) / 2)
    figure = make_subplots(
        rows=lines,
        cols=2,
        shared_xaxes="all",
        shared_yaxes="all" if comparable else False,
        horizontal_spacing=0.06 if comparable else 0.14,
        vertical_spacing=0.3 / lines,
        subplot_titles=[model_style(place).tick(shorten(names[place], MAX_NAME_LENGTH)) for place in losses],
    )
    set_layout(figure, lines * PANEL + MARGINS, t=36)
    figure.update_annotations(font_size=FONT_SIZE)
    for number, (place, points) in enumerate(losses.items()):
        line = _line(names[place], points, model_style(place).colour, 2)
        figure.add_trace(line, row=number // 2 + 1, col=number % 2 + 1)
    figure.update_xaxes(title_text=STEP_TITLE, row=lines)
    figure.update_xaxes(nticks=4)
    figure.update_yaxes(nticks=4)
    figure.update_yaxes(title_text="loss (nats)", col=1)
    return figure


def _overlay(losses: dict[int, Series], names: Sequence[str], best: int | None) -> go.Figure:
    """All runs in one panel, in grey except for the best one, if there is one."""
    figure = go.Figure([_line(names[place], points, GREY, 1) for place, points in losses.items() if place != best])
    if best is not None:
        figure.add_trace(_line(names[best], losses[best], model_style(best).colour, 3))
        figure.data[-1].update(name=f"lowest final loss: {shorten(names[best])}", showlegend=True)
    set_layout(figure, HEIGHT, legend=best is not None)
    figure.update_xaxes(title_text=STEP_TITLE)
    figure.update_yaxes(title_text="loss (nats)")
    return figure


def _line(name: str, points: Series, colour: str, width: int) -> go.Scatter:
    return go.Scatter(
        x=points.steps,
        y=points.values,
        name=name,
        mode="lines" if len(points.steps) > 1 else "markers",
        line={"color": colour, "width": width},
        showlegend=False,
        hovertemplate=f"{shorten(name)}<br>step %{{x}}: loss %{{y:.4g}} nats<extra></extra>",
    )
