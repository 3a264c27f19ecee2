"""Plots of FONDUE and of its elbow check (Bonheme, figures 8.1 and 8.5 to 8.8)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from vaescope.reporting.plots import Plot
from vaescope.reporting.style import BLACK, BLUE, BLUE_SHADE, GREEN, GREEN_SHADE, GREY, VERMILION, set_layout
from vaescope.sizing import Elbow, Fondue
from vaescope.sizing.axes import LATENTS

PANEL, MARGINS = 250, 110  # pixels
MAX_TICKS = 8
# Gap -> the names of its two terms, and their axis title.
TERMS = {
    "trace": ("Tr Var[Z]", "Tr Var[M]", "trace of the covariance"),
    "dimension": ("dimension of Z", "dimension of M", "intrinsic dimension"),
    "information": ("H(z)", "I(x, x̂)", "bits"),
}
OTHER_TERMS = ("first term", "second term", "terms of the gap")


def fondue_plot(found: Fondue) -> Plot:
    """The gap and its terms at each value tried, with the threshold and the answer."""
    curve = found.curve
    values = [row[found.over] for row in curve]
    first, second, unit = TERMS.get(found.gap, OTHER_TERMS)
    # A custom gap that is a single number has no terms.
    with_terms = found.gap in TERMS or any(row["subtrahend"] != 0 for row in curve)
    with_band = any(row["seeds"] > 1 for row in curve)
    last = 2 if with_terms else 1
    figure = _panels(last, found.over, values, legend=with_terms or with_band)
    if with_terms:
        _add_line(figure, 1, values, [row["minuend"] for row in curve], first, VERMILION, "circle")
        _add_line(figure, 1, values, [row["subtrahend"] for row in curve], second, BLUE, "square")
        figure.update_yaxes(title_text=unit, row=1)
    if with_band:
        edge = {"x": values, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
        highs, lows = ([row[name] for row in curve] for name in ("high", "low"))
        figure.add_scatter(y=highs, name="highest", showlegend=False, **edge, row=last, col=1)
        shade = {"fill": "tonexty", "fillcolor": GREEN_SHADE}
        figure.add_scatter(y=lows, name="range over seeds", **shade, **edge, row=last, col=1)
    _add_line(figure, last, values, [row["gap"] for row in curve], "gap", GREEN, "diamond")
    # The axis title names it, and a fourth legend entry would cover the label of the answer on a phone.
    figure.update_traces(selector={"name": "gap"}, showlegend=False)
    title = f"{first} − {second}" if found.gap in TERMS else f"gap ({found.gap})"
    figure.update_yaxes(title_text=title, row=last)
    _add_level(figure, found.threshold, f"threshold {found.threshold:g}", last, "left")
    _mark_answer(figure, found, values)
    name = "Number of latents" if found.over == LATENTS else f"Largest {found.over}"
    return Plot(name, found.summary(), figure, curve)


def elbow_plot(found: Elbow) -> Plot:
    """Reconstruction loss, and accuracy if there is one, at each size, with the chosen size and the elbow."""
    points = found.points
    latents = [point.latents for point in points]
    figure = _panels(1 if found.majority is None else 2, LATENTS, latents, legend=False)
    losses, spread = [point.loss for point in points], [point.loss_sd for point in points]
    _add_line(figure, 1, latents, losses, "reconstruction loss", BLUE, "circle", spread)
    figure.update_yaxes(title_text="reconstruction loss", row=1)
    if found.majority is not None:
        accuracies, spread = [point.accuracy for point in points], [point.accuracy_sd for point in points]
        _add_line(figure, 2, latents, accuracies, "accuracy", VERMILION, "square", spread)
        figure.update_yaxes(title_text="accuracy", row=2)
        _add_level(figure, found.majority, f"majority guess {found.majority:.3g}", 2, "right")
    if found.chosen is not None:
        where = ", the elbow" if found.chosen == found.elbow else ""
        _add_mark(figure, found.chosen, f"{found.chosen} chosen{where}", latents, "chosen")
    if found.elbow is not None and found.elbow != found.chosen:
        _add_mark(figure, found.elbow, f"elbow at {found.elbow}", latents, "elbow")
    sentence = found.summary()
    return Plot("Elbow check", f"{sentence[:1].upper()}{sentence[1:]}", figure, found.rows())


def _panels(count: int, name: str, values: Sequence[float], legend: bool) -> go.Figure:
    """Empty panels, one below the other, that share an x axis: linear for latents, else logarithmic."""
    figure = make_subplots(rows=count, cols=1, shared_xaxes=True, vertical_spacing=0.08)
    # The label of the answer is between the legend and the panels.
    set_layout(figure, count * PANEL + MARGINS, legend=legend, t=116 if legend else 48)
    figure.update_layout(hovermode="x unified")
    if name == LATENTS:
        # With few numbers plotly would place ticks at halves.
        every = {"dtick": 1} if max(values) - min(values) <= MAX_TICKS else {}
        figure.update_xaxes(type="linear", zeroline=False, **every)
    else:
        # A search over strengths tries powers of 2.
        first, last = math.floor(math.log2(min(values))), math.ceil(math.log2(max(values)))
        ticks = [2.0**power for power in range(first, last + 1, 1 + (last - first) // MAX_TICKS)]
        texts = [f"{tick:.3g}" for tick in ticks]
        figure.update_xaxes(type="log", zeroline=False, tickvals=ticks, ticktext=texts)
    figure.update_xaxes(title_text="number of latents" if name == LATENTS else name, row=count)
    return figure


def _add_line(
    figure: go.Figure,
    row: int,
    x: Sequence[float],
    y: Sequence[float | None],
    name: str,
    colour: str,
    symbol: str,
    deviations: Sequence[float | None] = (),
) -> None:
    """Add a line to a panel, with bars of one standard deviation if they are known."""
    line, marker = {"color": colour, "width": 2}, {"symbol": symbol, "size": 8}
    trace = go.Scatter(x=list(x), y=list(y), name=name, mode="lines+markers", line=line, marker=marker)
    if any(deviation is not None for deviation in deviations):
        trace.error_y = {"type": "data", "array": [deviation or 0.0 for deviation in deviations], "width": 4}
    figure.add_trace(trace, row=row, col=1)


def _add_level(figure: go.Figure, value: float, text: str, row: int, side: str) -> None:
    """Add a dotted horizontal line with its name above it, at the side where no curve is expected."""
    axis = "" if row == 1 else str(row)
    where = {"xref": f"x{axis} domain", "yref": f"y{axis}"}
    line = {"color": GREY, "width": 1.5, "dash": "dot"}
    figure.add_shape(type="line", name=text.split()[0], x0=0, x1=1, y0=value, y1=value, line=line, **where)
    label = {"xanchor": side, "yanchor": "bottom", "showarrow": False, "font": {"color": GREY}}
    figure.add_annotation(text=text, x=0.01 if side == "left" else 0.99, y=value, **where, **label)


def _mark_answer(figure: go.Figure, found: Fondue, values: Sequence[float]) -> None:
    """Mark the answer, and its interval as a band, within the range of the axis."""
    over_latents = found.over == LATENTS
    value = found.latents if over_latents else found.mean
    if value <= 0 and not over_latents:
        return
    text = f"<b>{value} latents</b>" if over_latents else f"<b>{found.over} {value:.3g}</b>"
    if found.interval is not None:
        low, high = found.interval
        text += f"<br>95% interval {low:.3g} to {high:.3g}"
        low = low if over_latents else max(low, min(values))
        shade = {"fillcolor": BLUE_SHADE, "line_width": 0, "layer": "below", "yref": "paper"}
        figure.add_shape(type="rect", name="interval", x0=low, x1=high, y0=0, y1=1, **shade)
    _add_mark(figure, value, text, values, "chosen", logarithmic=not over_latents)


def _add_mark(
    figure: go.Figure, value: float, text: str, values: Sequence[float], name: str, logarithmic: bool = False
) -> None:
    """Add a vertical line through all panels: the chosen number labelled above them, the elbow inside the first."""
    chosen = name == "chosen"
    line = {"color": BLACK, "width": 2} if chosen else {"color": GREY, "width": 2, "dash": "dash"}
    figure.add_shape(type="line", name=name, x0=value, x1=value, y0=0, y1=1, yref="paper", line=line)
    # On a logarithmic axis, plotly takes the position of a label as an exponent of 10, but that of a line as it is.
    place, *ends = (math.log10(one) if logarithmic else one for one in (value, min(values), max(values)))
    side = "left" if place <= sum(ends) / 2 else "right"
    figure.add_annotation(
        text=text,
        name=name,
        x=place,
        y=1,
        yref="paper",
        yanchor="bottom" if chosen else "top",
        xanchor=side,
        align=side,
        xshift=3 if side == "left" else -3,
        showarrow=False,
        font_color=line["color"],
    )
