"""Losses of several runs: in small panels, or in one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from vaescope.reporting.style import BLUE, FONT_SIZE, GREY, VERMILION, set_layout, shorten

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

PANEL, AROUND, HEIGHT = 130, 110, 420  # pixels
TITLE = 16  # letters above a small panel

Losses = dict[str, tuple[list[int], list[float]]]


def small_multiples(losses: Losses) -> Figure:
    """A panel for each run, two in a row, all on one scale."""
    from plotly.subplots import make_subplots

    lines = math.ceil(len(losses) / 2)
    figure = make_subplots(
        rows=lines,
        cols=2,
        shared_xaxes="all",
        shared_yaxes="all",
        horizontal_spacing=0.06,
        vertical_spacing=0.3 / lines,
        subplot_titles=[shorten(name, TITLE) for name in losses],
    )
    set_layout(figure, lines * PANEL + AROUND, t=36)
    figure.update_annotations(font_size=FONT_SIZE)
    for place, (name, (steps, values)) in enumerate(losses.items()):
        line = _loss_line(name, steps, values, BLUE, 2)
        figure.add_trace(line, row=place // 2 + 1, col=place % 2 + 1)
    figure.update_xaxes(title_text="step of training", row=lines)
    figure.update_xaxes(nticks=4)
    figure.update_yaxes(title_text="loss (nats)", nticks=4, col=1)
    return figure


def overlaid(losses: Losses) -> Figure:
    """All in one panel, in grey, but for the one that ends lowest."""
    from plotly.graph_objects import Figure

    figure = Figure()
    set_layout(figure, HEIGHT, legend=True)
    least = lowest(losses)
    for name in [*(name for name in losses if name != least), least]:
        line = _loss_line(name, *losses[name], *((VERMILION, 3) if name == least else (GREY, 1)))
        line.update(name=f"lowest at the end: {shorten(name)}" if name == least else name, showlegend=name == least)
        figure.add_trace(line)
    figure.update_xaxes(title_text="step of training")
    figure.update_yaxes(title_text="loss (nats)")
    return figure


def _loss_line(name: str, steps: list[int], values: list[float], colour: str, width: int) -> Any:
    from plotly.graph_objects import Scatter

    mode = "lines" if len(steps) > 1 else "markers"
    hover = f"{shorten(name)}<br>step %{{x}}: loss %{{y:.4g}} nats<extra></extra>"
    line = {"color": colour, "width": width}
    return Scatter(x=steps, y=values, name=name, mode=mode, line=line, showlegend=False, hovertemplate=hover)


def lowest(losses: Losses) -> str:
    """The run whose loss ends lowest."""
    return min(losses, key=lambda name: losses[name][1][-1])
