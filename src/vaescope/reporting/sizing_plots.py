"""Plots of FONDUE and of its elbow check (Bonheme, figures 8.1 and 8.5 to 8.8)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from vaescope.reporting.plots import Plot
from vaescope.reporting.style import BLACK, BLUE, BLUE_SHADE, GREEN, GREEN_SHADE, GREY, VERMILION, set_layout
from vaescope.sizing import Elbow, Fondue
from vaescope.sizing.axes import LATENTS

PANEL, MARGINS = 250, 110  # pixels
MAX_TICKS = 8
# Gap -> the names of its two terms, and what they measure.
TERMS = {
    "trace": ("Tr Var[Z]", "Tr Var[M]", "trace of the covariance"),
    "dimension": ("dimension of Z", "dimension of M", "intrinsic dimension"),
    "information": ("H(z)", "I(x, x̂)", "bits"),
}
OTHER_TERMS = ("first term", "second term", "terms of the gap")


def gap_curve(found: Fondue) -> go.Figure:
    """The gap and its terms at each value tried, with the threshold and the answer."""
    curve = found.curve
    values = [row[found.over] for row in curve]
    first, second, unit = TERMS.get(found.gap, OTHER_TERMS)
    # A custom gap that is a single number has no terms.
    with_terms = found.gap in TERMS or any(row["subtrahend"] != 0 for row in curve)
    with_band = any(row["seeds"] > 1 for row in curve)
    figure = _panels(2 if with_terms else 1, found.over, values, legend=with_terms or with_band)
    if with_terms:
        figure.add_trace(_line(values, [row["minuend"] for row in curve], first, VERMILION, "circle"), row=1, col=1)
        figure.add_trace(_line(values, [row["subtrahend"] for row in curve], second, BLUE, "square"), row=1, col=1)
        figure.update_yaxes(title_text=unit, row=1)
    last = 2 if with_terms else 1
    if with_band:
        lows, highs = ([row[name] for row in curve] for name in ("low", "high"))
        _add_band(figure, values, lows, highs, last)
    figure.add_trace(_line(values, [row["gap"] for row in curve], "gap", GREEN, "diamond"), row=last, col=1)
    # The axis title names it, and a fourth entry would cover the label of the answer on a phone.
    figure.update_traces(selector={"name": "gap"}, showlegend=False)
    title = f"{first} − {second}" if found.gap in TERMS else f"gap ({found.gap})"
    figure.update_yaxes(title_text=title, row=last)
    _add_level(figure, found.threshold, f"threshold {found.threshold:g}", last, "left")
    _mark_answer(figure, found, values)
    return figure


def elbow_curve(elbow: Elbow) -> go.Figure:
    """Reconstruction loss, and accuracy if there is one, at each size, with the chosen size and the elbow."""
    points = elbow.points
    latents = [point.latents for point in points]
    figure = _panels(1 if elbow.majority is None else 2, LATENTS, latents, legend=False)
    loss = _line(latents, [point.loss for point in points], "reconstruction loss", BLUE, "circle")
    _add_error_bars(loss, [point.loss_sd for point in points])
    figure.add_trace(loss, row=1, col=1)
    figure.update_yaxes(title_text="reconstruction loss", row=1)
    if elbow.majority is not None:
        accuracy = _line(latents, [point.accuracy for point in points], "accuracy", VERMILION, "square")
        _add_error_bars(accuracy, [point.accuracy_sd for point in points])
        figure.add_trace(accuracy, row=2, col=1)
        figure.update_yaxes(title_text="accuracy", row=2)
        _add_level(figure, elbow.majority, f"majority guess {elbow.majority:.3g}", 2, "right")
    if elbow.chosen is not None:
        where = ", the elbow" if elbow.chosen == elbow.elbow else ""
        _add_mark(figure, elbow.chosen, f"{elbow.chosen} chosen{where}", latents, "chosen")
    if elbow.elbow is not None and elbow.elbow != elbow.chosen:
        _add_mark(figure, elbow.elbow, f"elbow at {elbow.elbow}", latents, "elbow")
    return figure


def fondue_plot(found: Fondue | Mapping[str, object]) -> Plot:
    """The curve of a search, given as a result or as the dictionary it was saved as."""
    result = found if isinstance(found, Fondue) else Fondue.from_plain(found)
    title = "Number of latents" if result.over == LATENTS else f"Largest {result.over}"
    return Plot(title, result.summary(), gap_curve(result), result.curve)


def elbow_plot(found: Elbow) -> Plot:
    """The losses and accuracies of the sizes tried."""
    sentence = found.summary()
    return Plot("Elbow check", f"{sentence[:1].upper()}{sentence[1:]}", elbow_curve(found), found.rows())


def _panels(count: int, name: str, values: Sequence[float], legend: bool) -> go.Figure:
    """Empty panels, one below the other, that share an x axis: linear for latents, else logarithmic."""
    figure = make_subplots(rows=count, cols=1, shared_xaxes=True, vertical_spacing=0.08)
    # The label of the answer is between the legend and the panels.
    set_layout(figure, count * PANEL + MARGINS, legend=legend, t=116 if legend else 48)
    figure.update_layout(hovermode="x unified")
    figure.update_xaxes(**(_whole_ticks(values) if name == LATENTS else _powers_of_two(values)), zeroline=False)
    figure.update_xaxes(title_text="number of latents" if name == LATENTS else name, row=count)
    return figure


def _whole_ticks(values: Sequence[float]) -> dict[str, object]:
    """A linear axis; with few numbers plotly would place ticks at halves."""
    return {"type": "linear", **({"dtick": 1} if max(values) - min(values) <= MAX_TICKS else {})}


def _powers_of_two(values: Sequence[float]) -> dict[str, object]:
    """A logarithmic axis with a few powers of 2 as ticks, which a search over strengths tries."""
    first, last = math.floor(math.log2(min(values))), math.ceil(math.log2(max(values)))
    ticks = [2.0**power for power in range(first, last + 1, 1 + (last - first) // MAX_TICKS)]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:.3g}" for tick in ticks]}


def _line(x: Sequence[float], y: Sequence[float | None], name: str, colour: str, symbol: str) -> go.Scatter:
    line, marker = {"color": colour, "width": 2}, {"symbol": symbol, "size": 8}
    return go.Scatter(x=list(x), y=list(y), name=name, mode="lines+markers", line=line, marker=marker)


def _add_error_bars(line: go.Scatter, deviations: Sequence[float | None]) -> None:
    """Add bars of one standard deviation."""
    if any(deviation is not None for deviation in deviations):
        line.error_y = {"type": "data", "array": [deviation or 0.0 for deviation in deviations], "width": 4}


def _add_band(figure: go.Figure, x: Sequence[float], lows: list[float], highs: list[float], row: int) -> None:
    """Shade the range from the lowest to the highest gap over seeds."""
    edge = {"x": list(x), "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    figure.add_trace(go.Scatter(y=highs, name="highest", showlegend=False, **edge), row=row, col=1)
    band = go.Scatter(y=lows, name="range over seeds", fill="tonexty", fillcolor=GREEN_SHADE, **edge)
    figure.add_trace(band, row=row, col=1)


def _add_level(figure: go.Figure, value: float, text: str, row: int, side: str) -> None:
    """Add a dotted horizontal line with its name above it, at the side where no curve is expected."""
    axis = "" if row == 1 else str(row)
    where = {"xref": f"x{axis} domain", "yref": f"y{axis}"}
    line = {"color": GREY, "width": 1.5, "dash": "dot"}
    figure.add_shape(type="line", name=text.split()[0], x0=0, x1=1, y0=value, y1=value, line=line, **where)
    label = {"xanchor": side, "yanchor": "bottom", "showarrow": False, "font": {"color": GREY}}
    figure.add_annotation(text=text, x=0.01 if side == "left" else 0.99, y=value, **where, **label)


def _mark_answer(figure: go.Figure, found: Fondue, values: Sequence[float]) -> None:
    """Mark the answer, and its interval as a band, as far as the axis can show them."""
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
