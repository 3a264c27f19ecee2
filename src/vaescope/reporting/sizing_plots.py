"""Figures of FONDUE and of its elbow check (Bonheme, figures 8.1 and 8.5 to 8.8)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vaescope.reporting.plots import Plot
from vaescope.reporting.style import BLACK, BLUE, BLUE_SHADE, GREEN, GREEN_SHADE, GREY, VERMILION, set_layout
from vaescope.sizing import Elbow, Fondue
from vaescope.sizing.axes import LATENTS

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

PANEL, AROUND = 250, 110  # pixels
MOST_TICKS = 8
# Gap -> the names of its two terms, and what they measure.
TERMS = {
    "trace": ("Tr Var[Z]", "Tr Var[M]", "trace of the covariance"),
    "dimension": ("dimension of Z", "dimension of M", "intrinsic dimension"),
    "information": ("H(z)", "I(x, x̂)", "bits"),
}
OWN_TERMS = ("first term", "second term", "terms of the gap")


def gap_curve(found: Fondue) -> Figure:
    """The terms of the gap and the gap itself against what was searched over, with the threshold and the answer."""
    curve = found.curve
    across = [row[found.over] for row in curve]
    names = TERMS.get(found.gap, OWN_TERMS)
    # A gap of one's own that is a number has no terms.
    with_terms = found.gap in TERMS or any(row["subtrahend"] != 0 for row in curve)
    with_band = any(row["seeds"] > 1 for row in curve)
    figure = _panels(2 if with_terms else 1, found.over, across, legend=with_terms or with_band)
    if with_terms:
        figure.add_trace(_line(across, [row["minuend"] for row in curve], names[0], VERMILION, "circle"), row=1, col=1)
        figure.add_trace(_line(across, [row["subtrahend"] for row in curve], names[1], BLUE, "square"), row=1, col=1)
        figure.update_yaxes(title_text=names[2], row=1)
    last = 2 if with_terms else 1
    if with_band:
        _band(figure, across, curve, last)
    figure.add_trace(_line(across, [row["gap"] for row in curve], "gap", GREEN, "diamond"), row=last, col=1)
    # The axis says it, and three entries leave room for the label of the answer on a telephone.
    figure.update_traces(selector={"name": "gap"}, showlegend=False)
    title = f"{names[0]} − {names[1]}" if found.gap in TERMS else f"gap ({found.gap})"
    figure.update_yaxes(title_text=title, row=last)
    _level(figure, found.threshold, f"threshold {found.threshold:g}", last, "left")
    _mark_answer(figure, found, across)
    return figure


def elbow_curve(elbow: Elbow) -> Figure:
    """Reconstruction loss, and accuracy where there is one, against the number of latents, with chosen and knee."""
    points = elbow.points
    latents = [point.latents for point in points]
    figure = _panels(1 if elbow.majority is None else 2, LATENTS, latents, legend=False)
    loss = _line(latents, [point.loss for point in points], "reconstruction loss", BLUE, "circle")
    figure.add_trace(_with_bars(loss, [point.loss_sd for point in points]), row=1, col=1)
    figure.update_yaxes(title_text="reconstruction loss", row=1)
    if elbow.majority is not None:
        line = _line(latents, [point.accuracy for point in points], "accuracy", VERMILION, "square")
        figure.add_trace(_with_bars(line, [point.accuracy_sd for point in points]), row=2, col=1)
        figure.update_yaxes(title_text="accuracy", row=2)
        _level(figure, elbow.majority, f"majority guess {elbow.majority:.3g}", 2, "right")
    if elbow.chosen is not None:
        where = ", the elbow" if elbow.chosen == elbow.elbow else ""
        _mark(figure, elbow.chosen, f"{elbow.chosen} chosen{where}", latents, "chosen")
    if elbow.elbow is not None and elbow.elbow != elbow.chosen:
        _mark(figure, elbow.elbow, f"elbow at {elbow.elbow}", latents, "elbow")
    return figure


def fondue_plot(found: Fondue | Mapping[str, Any]) -> Plot:
    """The curve of a search, or of the table that one was kept as."""
    result = found if isinstance(found, Fondue) else Fondue.from_plain(found)
    title = "Number of latents" if result.over == LATENTS else f"Largest {result.over}"
    return Plot(title, result.summary(), gap_curve(result), result.curve)


def elbow_plot(found: Elbow) -> Plot:
    """The losses and accuracies of a few sizes."""
    sentence = found.summary()
    return Plot("Elbow check", f"{sentence[:1].upper()}{sentence[1:]}", elbow_curve(found), found.rows())


def _panels(count: int, name: str, across: Sequence[float], legend: bool) -> Figure:
    """Empty panels, one below the other, over one axis with that name: linear for latents, else logarithmic."""
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=count, cols=1, shared_xaxes=True, vertical_spacing=0.08)
    # The label of the chosen number stands between the legend and the panels.
    set_layout(figure, count * PANEL + AROUND, legend=legend, t=116 if legend else 48)
    figure.update_layout(hovermode="x unified")
    figure.update_xaxes(**(_whole_ticks(across) if name == LATENTS else _doublings(across)), zeroline=False)
    figure.update_xaxes(title_text="number of latents" if name == LATENTS else name, row=count)
    return figure


def _whole_ticks(across: Sequence[float]) -> dict[str, Any]:
    """A linear axis; plotly would put halves between few numbers."""
    return {"type": "linear", **({"dtick": 1} if max(across) - min(across) <= MOST_TICKS else {})}


def _doublings(across: Sequence[float]) -> dict[str, Any]:
    """A logarithmic axis with few powers of 2, which a search over strengths goes along."""
    first, last = math.floor(math.log2(min(across))), math.ceil(math.log2(max(across)))
    values = [2.0**power for power in range(first, last + 1, 1 + (last - first) // MOST_TICKS)]
    return {"type": "log", "tickvals": values, "ticktext": [f"{value:.3g}" for value in values]}


def _line(across: Sequence[float], up: Sequence[float | None], name: str, colour: str, symbol: str) -> Any:
    from plotly.graph_objects import Scatter

    look: dict[str, Any] = {"line": {"color": colour, "width": 2}, "marker": {"symbol": symbol, "size": 8}}
    return Scatter(x=list(across), y=list(up), name=name, mode="lines+markers", **look)


def _with_bars(line: Any, deviations: Sequence[float | None]) -> Any:
    """The line with a bar of one standard deviation to both sides of each point that has one."""
    if any(deviation is not None for deviation in deviations):
        line.error_y = {"type": "data", "array": [deviation or 0.0 for deviation in deviations], "width": 4}
    return line


def _band(figure: Figure, across: Sequence[float], curve: Sequence[dict[str, Any]], row: int) -> None:
    """From the lowest to the highest gap of any seed."""
    from plotly.graph_objects import Scatter

    edge: dict[str, Any] = {"x": list(across), "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    figure.add_trace(
        Scatter(y=[one["high"] for one in curve], name="highest", showlegend=False, **edge), row=row, col=1
    )
    lows = Scatter(
        y=[one["low"] for one in curve], name="range over seeds", fill="tonexty", fillcolor=GREEN_SHADE, **edge
    )
    figure.add_trace(lows, row=row, col=1)


def _level(figure: Figure, value: float, text: str, row: int, side: str) -> None:
    """A dotted horizontal line with its name above it, at the side where no curve is expected."""
    axis = "" if row == 1 else str(row)
    places: dict[str, Any] = {"xref": f"x{axis} domain", "yref": f"y{axis}"}
    line = {"color": GREY, "width": 1.5, "dash": "dot"}
    figure.add_shape(type="line", name=text.split()[0], x0=0, x1=1, y0=value, y1=value, line=line, **places)
    label: dict[str, Any] = {"xanchor": side, "yanchor": "bottom", "showarrow": False, "font": {"color": GREY}}
    figure.add_annotation(text=text, x=0.01 if side == "left" else 0.99, y=value, **places, **label)


def _mark_answer(figure: Figure, found: Fondue, across: Sequence[float]) -> None:
    """The answer, and its interval as a band behind everything, as far as the axis can show them."""
    over_latents = found.over == LATENTS
    value = found.latents if over_latents else found.mean
    if value <= 0 and not over_latents:
        return
    text = f"<b>{value} latents</b>" if over_latents else f"<b>{found.over} {value:.3g}</b>"
    if found.interval is not None:
        low, high = found.interval
        text += f"<br>95% interval {low:.3g} to {high:.3g}"
        low = low if over_latents else max(low, min(across))
        shade: dict[str, Any] = {"fillcolor": BLUE_SHADE, "line_width": 0, "layer": "below", "yref": "paper"}
        figure.add_shape(type="rect", name="interval", x0=low, x1=high, y0=0, y1=1, **shade)
    _mark(figure, value, text, across, "chosen", logarithmic=not over_latents)


def _mark(
    figure: Figure, value: float, text: str, across: Sequence[float], name: str, logarithmic: bool = False
) -> None:
    """A vertical line through all panels: the chosen number labelled above them, the elbow inside the first."""
    chosen = name == "chosen"
    line = {"color": BLACK, "width": 2} if chosen else {"color": GREY, "width": 2, "dash": "dash"}
    figure.add_shape(type="line", name=name, x0=value, x1=value, y0=0, y1=1, yref="paper", line=line)
    # Plotly takes the place of a label on a logarithmic axis as an exponent of 10, that of a line as it is.
    place, *ends = (math.log10(one) if logarithmic else one for one in (value, min(across), max(across)))
    label: dict[str, Any] = {"yref": "paper", "yanchor": "bottom" if chosen else "top", "showarrow": False}
    side = "left" if place <= sum(ends) / 2 else "right"
    label |= {"xanchor": side, "align": side, "xshift": 3 if side == "left" else -3, "font_color": line["color"]}
    figure.add_annotation(text=text, name=name, x=place, y=1, **label)
