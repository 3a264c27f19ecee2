"""The losses of several runs: one small panel per run, or all runs in one panel."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from vaescope.diagnosis.subject import History
from vaescope.reporting.downsample import SPLIT_NAMES, TEST, TRAIN, Series, series
from vaescope.reporting.history_plots import STEP_TITLE
from vaescope.reporting.plots import Plot
from vaescope.reporting.style import BLUE, FONT_SIZE, GREY, VERMILION, axis_scale, set_layout, shorten

MAX_PANELS = 12
MAX_PANEL_POINTS = 150  # per line
PANEL, MARGINS, HEIGHT = 130, 110, 420  # pixels
MAX_TITLE_LENGTH = 16  # characters above a small panel


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
        subplot_titles=[shorten(name, MAX_TITLE_LENGTH) for name in losses],
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
