"""Plots of several runs: rate against reconstruction, types of latents, and losses.

Rows are those of `runs.summary`, with a `name` if it differs from the id; codes that belong to no run have fewer
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

from vaescope.diagnosis.subject import History
from vaescope.numerics.variable_type_names import ACTIVE, PASSIVE, VARIABLE_TYPES
from vaescope.objectives import OBJECTIVES
from vaescope.reporting.downsample import SPLIT_NAMES, TEST, TRAIN, Series, is_finite, series
from vaescope.reporting.history_plots import STEP_TITLE
from vaescope.reporting.plots import Plot
from vaescope.reporting.style import (
    BLUE,
    CYCLE,
    FONT_SIZE,
    GREY,
    SYMBOLS,
    TYPE_STYLES,
    VERMILION,
    axis_scale,
    round_value,
    set_layout,
    shorten,
    type_label,
)

MARGINS, HEIGHT, BAR, MIN_BAR, MAX_BARS_HEIGHT, LEGEND_ENTRY = 110, 420, 30, 10, 1500, 18  # pixels
MAX_NUMBERED = 12  # points up to which each has its number
MAX_NAME_LENGTH = 16  # characters next to a bar, in a legend or above a small panel
MAX_PANELS = 12
PANEL = 130  # pixels
MAX_PANEL_POINTS = 150  # per line
MAX_TICKS = 8

Row = Mapping[str, Any]


def rates_plot(rows: Sequence[Row]) -> Plot | None:
    """Rate against reconstruction at the end of each run, with symbols by objective; None if no run has both.

    The values are those on held-out items if every run has them, else on training items. Few runs are numbered and
    named in the legend; otherwise the legend names the objectives.
    """
    ended = [row for row in rows if _final_terms(row, TEST) or _final_terms(row, TRAIN)]
    split = TEST if all(_final_terms(row, TEST) for row in ended) else TRAIN
    points = [(row, *terms) for row in ended if (terms := _final_terms(row, split)) is not None]
    if not points:
        return None
    numbered = len(points) <= MAX_NUMBERED
    objectives = list(dict.fromkeys(_objective(row) for row, *_ in points))
    figure = go.Figure()
    set_layout(figure, HEIGHT + (LEGEND_ENTRY * len(points) if numbered else 0), legend=True)
    for number, (row, rate, reconstruction) in enumerate(points, 1):
        place = objectives.index(_objective(row))
        point = go.Scatter(
            x=[rate],
            y=[reconstruction],
            mode="markers",
            marker={"size": 10, "color": CYCLE[place % len(CYCLE)], "symbol": SYMBOLS[place % len(SYMBOLS)]},
            hovertemplate=f"{_details(row)}<br>rate %{{x:.4g}} nats<br>reconstruction %{{y:.4g}} nats<extra></extra>",
            cliponaxis=False,
        )
        if numbered:
            name = f"{number} {shorten(_name(row), MAX_NAME_LENGTH)}"
            point.update(name=name, mode="markers+text", text=[str(number)], textposition="top center")
        else:
            known = any(trace.name == _objective(row) for trace in figure.data)
            point.update(name=_objective(row), showlegend=not known)
        figure.add_trace(point)
    figure.update_xaxes(title_text="rate (nats)", **axis_scale(rate for _, rate, _ in points))
    figure.update_yaxes(title_text="reconstruction (nats)", **axis_scale(value for *_, value in points))
    low, high = (
        f"{rate:.4g} nats ({_name(row)}, reconstruction {reconstruction:.4g})"
        for row, rate, reconstruction in (pick(points, key=lambda point: point[1]) for pick in (min, max))
    )
    sentence = f"On {SPLIT_NAMES[split]}, the rate ranges from {low} to {high}."
    shown = [{"name": _name(row), "split": split, "rate": one, "reconstruction": other} for row, one, other in points]
    return Plot("Rate and reconstruction", sentence, figure, shown)


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
    # Strengths are usually doubled.
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
        labels = [shorten(name, MAX_NAME_LENGTH) for name in names]
        figure.update_yaxes(tickvals=list(range(len(names))), ticktext=labels)
    else:
        figure.update_yaxes(title_text="model")
    active, passive = [row[ACTIVE] for row in typed], fmean(row[PASSIVE] for row in typed)
    span = str(active[0]) if min(active) == max(active) else f"{min(active)} to {max(active)}"
    sentence = f"{len(typed)} models with {span} active latents and, on average, {passive:.3g} passive latents."
    counts = [{"name": _name(row), **{kind: row[kind] for kind in VARIABLE_TYPES}} for row in typed]
    return Plot("Types of latents", sentence, figure, counts)


def losses_plot(histories: Sequence[tuple[str, History]]) -> Plot | None:
    """The loss of each run on one scale; None if no history has a loss.

    It is the loss on held-out items if every run has it, else the loss on training items.
    """
    known = [(name, history) for name, history in histories if any("loss" in row for row in history)]
    split = TEST if all(series(history, TEST, "loss").steps for _, history in known) else TRAIN
    found = {name: series(history, split, "loss", MAX_PANEL_POINTS) for name, history in known}
    losses = {name: points for name, points in found.items() if points.steps}
    if not losses:
        return None
    best = min(losses, key=lambda name: losses[name].values[-1])
    figure = _small_multiples(losses) if len(losses) <= MAX_PANELS else _overlay(losses, best)
    figure.update_yaxes(**axis_scale(value for points in losses.values() for value in points.values))
    missing = len(histories) - len(losses)
    sentence = (
        f"On {SPLIT_NAMES[split]}, {best} has the lowest final loss of {len(losses)} runs, "
        f"{losses[best].values[-1]:.4g} nats{f'; {missing} without a history' if missing else ''}."
    )
    rows = [
        {"name": name, "split": split, "step": step, "loss": value}
        for name, points in losses.items()
        for step, value in zip(*points, strict=True)
    ]
    return Plot("Losses", sentence, figure, rows)


def _name(row: Row) -> str:
    return str(row.get("name", row.get("id", "")))


def _objective(row: Row) -> str:
    return str(row.get("objective", "codes")).replace("_", " ")


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


def _small_multiples(losses: dict[str, Series]) -> go.Figure:
    """One panel per run, two in a row, all on one scale."""
    lines = math.ceil(len(losses) / 2)
    figure = make_subplots(
        rows=lines,
        cols=2,
        shared_xaxes="all",
        shared_yaxes="all",
        horizontal_spacing=0.06,
        vertical_spacing=0.3 / lines,
        subplot_titles=[shorten(name, MAX_NAME_LENGTH) for name in losses],
    )
    set_layout(figure, lines * PANEL + MARGINS, t=36)
    figure.update_annotations(font_size=FONT_SIZE)
    for place, (name, points) in enumerate(losses.items()):
        figure.add_trace(_line(name, points, BLUE, 2), row=place // 2 + 1, col=place % 2 + 1)
    figure.update_xaxes(title_text=STEP_TITLE, row=lines)
    figure.update_xaxes(nticks=4)
    figure.update_yaxes(title_text="loss (nats)", nticks=4, col=1)
    return figure


def _overlay(losses: dict[str, Series], best: str) -> go.Figure:
    """All runs in one panel, in grey except for the best one."""
    figure = go.Figure([_line(name, points, GREY, 1) for name, points in losses.items() if name != best])
    figure.add_trace(_line(best, losses[best], VERMILION, 3))
    figure.data[-1].update(name=f"lowest final loss: {shorten(best)}", showlegend=True)
    set_layout(figure, HEIGHT, legend=True)
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
