"""Plots of training: every term, rate against distortion, and types of latents (Clapham and Grzes, figures 4 and 5)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from vaescope.diagnosis.subject import History
from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.reporting.downsample import (
    SPLIT_NAMES,
    TEST,
    TRAIN,
    Series,
    downsample,
    is_finite,
    is_number,
    series,
)
from vaescope.reporting.plots import Plot
from vaescope.reporting.style import (
    BLACK,
    BLUE,
    TYPE_STYLES,
    VERMILION,
    axis_scale,
    colour_bar,
    plural,
    round_value,
    set_layout,
    type_label,
)

PANEL, MARGINS, HEIGHT = 170, 100, 380  # pixels
MAX_LARGE_MARKERS = 40  # points above which markers are small
MAX_TITLE_LENGTH = 22  # characters of an axis title that fit next to a panel
STEP_TITLE = "training step"
PROBE = "probe"
SPLIT_STYLES: dict[str, dict[str, object]] = {
    TRAIN: {"mode": "lines", "line": {"color": BLUE, "width": 2}},
    TEST: {
        "mode": "lines+markers",
        "line": {"color": VERMILION, "width": 2, "dash": "dash"},
        "marker": {"symbol": "diamond", "size": 7},
    },
}
NOT_TERMS = ("step", "split", "member")
# All other terms of the objectives are in nats.
WITHOUT_UNIT = ("gradient_norm", "off_diagonal", "diagonal", "divergence")

Lines = dict[tuple[str, str], Series]


class RatePoint(NamedTuple):
    """One logged step in the rate-distortion plane, in nats."""

    step: int
    rate: float
    reconstruction: float


def history_plot(history: History) -> Plot | None:
    """Every term on training and held-out items, one panel per term, the loss first; None without such rows."""
    lines = _lines(history)
    if not lines:
        return None
    terms = sorted(dict.fromkeys(term for term, _ in lines), key=lambda term: term != "loss")
    figure = make_subplots(rows=len(terms), cols=1, shared_xaxes=True, vertical_spacing=0.1 / len(terms))
    set_layout(figure, len(terms) * PANEL + MARGINS, legend=True)
    in_legend: set[str] = set()
    for (term, split), points in lines.items():
        unit = "" if term in WITHOUT_UNIT else " nats"
        hover = f"step %{{x}}, {_words(term)} on {SPLIT_NAMES[split]}: %{{y:.4g}}{unit}<extra></extra>"
        line = go.Scatter(x=points.steps, y=points.values, name=SPLIT_NAMES[split], **SPLIT_STYLES[split])
        line.update(legendgroup=split, showlegend=split not in in_legend, hovertemplate=hover)
        if len(points.steps) == 1:
            line.mode = "markers"
        if len(points.steps) > MAX_LARGE_MARKERS:
            line.marker.size = 3
        figure.add_trace(line, row=terms.index(term) + 1, col=1)
        in_legend.add(split)
    for place, term in enumerate(terms, 1):
        values = [value for (name, _), points in lines.items() if name == term for value in points.values]
        figure.update_yaxes(title_text=_title(term), nticks=5, row=place, **axis_scale(values))
    figure.update_xaxes(title_text=STEP_TITLE, row=len(terms))
    rows = [
        {"term": term, "split": split, "step": step, "value": value}
        for (term, split), points in lines.items()
        for step, value in zip(*points, strict=True)
    ]
    return Plot("Training", _course(lines, history), figure, rows)


def rate_distortion_plot(history: History) -> Plot | None:
    """Reconstruction against rate during training, with the end marked; None if no row has both.

    The path is that of the training items, or of the held-out items if there are no others.
    """
    train, test = (_rate_points(history, split) for split in (TRAIN, TEST))
    split, path = (TRAIN, train) if train else (TEST, test)
    if not any(point.rate > 0 for point in path):
        return None
    kept = downsample([point.rate for point in path], [point.reconstruction for point in path])
    path = [path[place] for place in kept]
    steps, rates, distortions = ([point[column] for point in path] for column in range(3))
    axes = "rate %{x:.4g} nats<br>reconstruction %{y:.4g} nats<extra></extra>"
    figure = go.Figure(
        go.Scatter(
            x=rates,
            y=distortions,
            customdata=steps,
            mode="lines+markers",
            name="during training",
            line={"color": "#b0b0b0", "width": 1},
            marker={"size": 7, "color": steps, "colorscale": "Cividis", "colorbar": colour_bar(STEP_TITLE)},
            hovertemplate=f"step %{{customdata}}, {SPLIT_NAMES[split]}<br>{axes}",
        )
    )
    set_layout(figure, HEIGHT, t=84)
    ends = [(split, path[-1], BLACK, "circle-open")]
    ends += [(TEST, test[-1], VERMILION, "diamond-open")] if train and test else []
    for where, end, colour, symbol in ends:
        name = SPLIT_NAMES[where]
        figure.add_scatter(
            x=[end.rate],
            y=[end.reconstruction],
            name=f"end, {name}",
            mode="markers",
            marker={"size": 15, "symbol": symbol, "color": colour, "line": {"width": 3, "color": colour}},
            hovertemplate=f"end, step {end.step}, {name}<br>{axes}",
        )
    figure.update_xaxes(title_text="rate (nats)", **axis_scale(rates))
    figure.update_yaxes(title_text="reconstruction (nats)", **axis_scale(distortions))
    sentence = (
        f"From step {steps[0]} to {steps[-1]}, the rate changes from {rates[0]:.4g} to {rates[-1]:.4g} nats and the "
        f"reconstruction loss from {distortions[0]:.4g} to {distortions[-1]:.4g} nats on {SPLIT_NAMES[split]} "
        f"(circle: end{'; diamond: held-out items' if len(ends) > 1 else ''})."
    )
    points = [(split, point) for point in path] + [(where, end) for where, end, *_ in ends[1:]]
    return Plot("Rate and distortion", sentence, figure, [{"split": where, **p._asdict()} for where, p in points])


def types_over_training_plot(history: History) -> Plot | None:
    """The number of active, mixed and passive latents at each probe; None for fewer than two probes."""
    probes = [row for row in history if row["split"] == PROBE and all(kind in row for kind in VARIABLE_TYPES)]
    if len(probes) < 2:
        return None
    changed = [after for before, after in pairwise(probes) if _counts(before) != _counts(after)]
    shown = [probes[0], *changed]
    if probes[-1] is not shown[-1]:
        shown.append(probes[-1])
    shown = [shown[place] for place in downsample(*([row[kind] for row in shown] for kind in VARIABLE_TYPES))]
    figure = go.Figure()
    set_layout(figure, HEIGHT, legend=True)
    for kind in VARIABLE_TYPES:
        style = TYPE_STYLES[kind]
        figure.add_scatter(
            x=[row["step"] for row in shown],
            y=[row[kind] for row in shown],
            name=type_label(kind),
            stackgroup="types",
            line={"color": style.colour, "width": 2, "dash": style.dash, "shape": "hv"},
            fillpattern=style.fill(),
            hovertemplate=f"step %{{x}}: %{{y}} {kind}<extra></extra>",
        )
    figure.update_xaxes(title_text=STEP_TITLE)
    figure.update_yaxes(title_text="number of latents", rangemode="tozero", tickformat="d", nticks=8)
    first, last = (", ".join(f"{row[kind]} {kind}" for kind in VARIABLE_TYPES) for row in (probes[0], probes[-1]))
    state = "the counts never changed"
    if changed:
        moving = changed[-1] is probes[-1]
        state = "still changing at the last check" if moving else f"unchanged since step {changed[-1]['step']}"
    sentence = f"Step {probes[0]['step']}: {first}. Step {probes[-1]['step']}: {last}; {state}."
    rows = [{"step": row["step"], **{kind: row[kind] for kind in VARIABLE_TYPES}} for row in shown]
    return Plot("Types over training", sentence, figure, rows)


def _lines(history: History) -> Lines:
    """(term, split) -> its points."""
    rows = [row for row in history if row["split"] in SPLIT_NAMES]
    terms = dict.fromkeys(name for row in rows for name in row if name not in NOT_TERMS and is_number(row[name]))
    lines = {(term, split): series(rows, split, term) for term in terms for split in SPLIT_NAMES}
    return {key: points for key, points in lines.items() if points.steps}


def _rate_points(history: History, split: str) -> list[RatePoint]:
    return [
        RatePoint(row["step"], round_value(row["rate"]), round_value(row["reconstruction"]))
        for row in history
        if row["split"] == split and is_finite(row.get("rate")) and is_finite(row.get("reconstruction"))
    ]


def _counts(probe: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(probe[kind] for kind in VARIABLE_TYPES)


def _course(lines: Lines, history: History) -> str:
    """Where the loss began and ended, and how many values could not be drawn."""
    parts = [
        f"from {lines['loss', split].values[0]:.4g} to {lines['loss', split].values[-1]:.4g} nats on {items}"
        for split, items in SPLIT_NAMES.items()
        if ("loss", split) in lines
    ]
    last = max(points.steps[-1] for points in lines.values())
    text = f"By step {last}, the loss changes {' and '.join(parts)}." if parts else f"The terms up to step {last}."
    rows = [row for row in history if row["split"] in SPLIT_NAMES]
    omitted = sum(is_number(value) and not is_finite(value) for row in rows for value in row.values())
    return f"{text} Not shown: {plural(omitted, 'non-finite value')}." if omitted else text


def _words(term: str) -> str:
    return term.replace("_", " ")


def _title(term: str) -> str:
    if term in WITHOUT_UNIT:
        return _words(term)
    separator = " " if len(_words(term)) + len("(nats)") < MAX_TITLE_LENGTH else "<br>"
    return f"{_words(term)}{separator}(nats)"
