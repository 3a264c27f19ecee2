"""Plots of training: every term, rate against distortion, and types of latents (Clapham and Grzes, figures 4 and 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from vaescope.metrics.mutual_information import listed
from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.regime import VariableTypes
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
    BELOW_NUMBERS,
    BLACK,
    BLUE,
    MARK_SCALE,
    TYPE_STYLES,
    VERMILION,
    axis_scale,
    colour_bar,
    plural,
    round_value,
    set_layout,
    type_label,
)
from vaescope.runs.probes import PROBE, History, probes_of
from vaescope.runs.type_counts import FINAL

PANEL, MARGINS, HEIGHT = 170, 100, 380  # pixels
MAX_LARGE_MARKERS = 40  # points above which markers are small
MAX_TITLE_LENGTH = 22  # characters of an axis title that fit next to a panel
STEP_TITLE = "training step"
FINAL_MARKER = 16  # pixels
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


class _TypePoint(NamedTuple):
    """The number of latents of each type, in the order of `VARIABLE_TYPES`, at a probe or in the final diagnosis."""

    step: int
    counted: str
    counts: tuple[int, ...]

    @property
    def by_type(self) -> dict[str, int]:
        """The counts by the name of the type."""
        return dict(zip(VARIABLE_TYPES, self.counts, strict=True))

    @property
    def words(self) -> str:
        """The counts as '3 active, 0 mixed, 7 passive'."""
        return ", ".join(f"{count} {kind}" for kind, count in self.by_type.items())


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
            marker={"size": 7, "color": steps, "colorscale": MARK_SCALE, "colorbar": colour_bar(STEP_TITLE)},
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
    # With a colour bar, plotly places the title as if the axis had no numbers.
    figure.update_xaxes(title_text="rate (nats)", title_standoff=BELOW_NUMBERS, **axis_scale(rates))
    figure.update_yaxes(title_text="reconstruction (nats)", **axis_scale(distortions))
    sentence = (
        f"From step {steps[0]} to {steps[-1]}, the rate changes from {rates[0]:.4g} to {rates[-1]:.4g} nats and the "
        f"reconstruction loss from {distortions[0]:.4g} to {distortions[-1]:.4g} nats on {SPLIT_NAMES[split]} "
        f"(circle: end{'; diamond: held-out items' if len(ends) > 1 else ''})."
    )
    points = [(split, point) for point in path] + [(where, end) for where, end, *_ in ends[1:]]
    return Plot("Rate and distortion", sentence, figure, [{"split": where, **p._asdict()} for where, p in points])


def types_over_training_plot(history: History, final: VariableTypes | None = None) -> Plot | None:
    """The number of active, mixed and passive latents at each probe; None if they are known at fewer than two steps.

    Args:
        history: The rows of the history; a probe reads a few items.
        final: The types of the trained model over more items, where every line ends.
    """
    points = [_TypePoint(row["step"], PROBE, _counts(row)) for row in probes_of(history)]
    probes = len(points)
    if final is not None and history:
        points.append(_TypePoint(max(row["step"] for row in history), FINAL, _counts(final.counts)))
    if len({point.step for point in points}) < 2:
        return None
    shown = [points[place] for place in downsample(*zip(*(point.counts for point in points), strict=True))]
    ending = "" if final is None else f"final diagnosis, over {final.statistics.count:,} items"
    figure = go.Figure()
    set_layout(figure, HEIGHT, legend=True)
    for place, kind in enumerate(VARIABLE_TYPES):
        style = TYPE_STYLES[kind]
        figure.add_scatter(
            x=[point.step for point in shown],
            y=[point.counts[place] for point in shown],
            name=type_label(kind),
            mode="lines+markers",
            cliponaxis=False,
            line={"color": style.colour, "width": 2, "dash": style.dash},
            marker={
                "color": style.colour,
                "symbol": style.symbol,
                "size": [FINAL_MARKER if point.counted == FINAL else _marker_size(len(shown)) for point in shown],
            },
            customdata=[ending if point.counted == FINAL else PROBE for point in shown],
            hovertemplate=f"step %{{x}}: %{{y}} {kind} (%{{customdata}})<extra></extra>",
        )
    if final is not None:
        figure.add_annotation(
            x=points[-1].step,
            y=max(points[-1].counts),
            text="final",
            showarrow=False,
            xanchor="right",
            yanchor="bottom",
            yshift=FINAL_MARKER / 2,
        )
    figure.update_xaxes(title_text=STEP_TITLE)
    figure.update_yaxes(title_text="number of latents", rangemode="tozero", tickformat="d", nticks=8)
    rows = [{"step": point.step, "counted": point.counted, **point.by_type} for point in shown]
    return Plot("Types over training", _types_sentence(points[:probes], final), figure, rows)


def _types_sentence(probes: Sequence[_TypePoint], final: VariableTypes | None) -> str:
    """The first and the last counts, and whether they were still changing."""
    parts = []
    if probes:
        parts.append(f"Probe at step {probes[0].step}: {probes[0].words}")
    if len(probes) > 1:
        changed = [(before, after) for before, after in pairwise(probes) if before.counts != after.counts]
        state = "the counts never changed"
        if changed:
            before, after = changed[-1]
            moved = listed([kind for kind, count in before.by_type.items() if count != after.by_type[kind]])
            last = f"the numbers of {moved} latents still changed at the last probe"
            state = last if after is probes[-1] else f"unchanged since step {after.step}"
        parts.append(f"Probe at step {probes[-1].step}: {probes[-1].words}; {state}")
    if final is not None:
        end = _TypePoint(0, FINAL, _counts(final.counts))
        parts.append(f"Final diagnosis over {final.statistics.count:,} items: {end.words}")
    if final is not None and probes and probes[-1].counts != _counts(final.counts):
        parts.append("A probe reads fewer items, so that its counts may differ")
    return f"{'. '.join(parts)}."


def _marker_size(points: int) -> int:
    return 8 if points <= MAX_LARGE_MARKERS else 3


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
    """The first and last loss, and how many values could not be drawn."""
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
