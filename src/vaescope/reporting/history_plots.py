"""How training went: every term, rate against distortion, and types of latents (Clapham and Grzes, figures 4 and 5)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.reporting.downsample import (
    MAX_POINTS,
    SPLIT_NAMES,
    TEST,
    TRAIN,
    History,
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
    round_value,
    set_layout,
    type_label,
)

PANEL, AROUND, HEIGHT = 170, 100, 380  # pixels
DENSE = 40  # points above which their marks are small
WIDE = 22  # letters of an axis title that fit beside a panel
PROBE = "probe"
STYLES: dict[str, dict[str, Any]] = {
    TRAIN: {"mode": "lines", "line": {"color": BLUE, "width": 2}},
    TEST: {
        "mode": "lines+markers",
        "line": {"color": VERMILION, "width": 2, "dash": "dash"},
        "marker": {"symbol": "diamond", "size": 7},
    },
}
NOT_TERMS = ("step", "split", "member")
# Everything else that an objective adds up is in nats.
NO_UNIT = ("gradient_norm", "off_diagonal", "diagonal", "divergence")


def history_plot(history: History) -> Plot | None:
    """Every term on training and held-out items, a panel each, the loss first; None without a row of either."""
    from plotly.graph_objects import Scatter
    from plotly.subplots import make_subplots

    lines = _lines(history)
    if not lines:
        return None
    terms = sorted(dict.fromkeys(term for term, _ in lines), key=lambda term: term != "loss")
    figure = make_subplots(rows=len(terms), cols=1, shared_xaxes=True, vertical_spacing=0.1 / len(terms))
    set_layout(figure, len(terms) * PANEL + AROUND, legend=True)
    seen: set[str] = set()
    for (term, split), (steps, values) in lines.items():
        style = {**STYLES[split], "mode": "markers" if len(steps) == 1 else STYLES[split]["mode"]}
        if len(steps) > DENSE:
            style["marker"] = {**style.get("marker", {}), "size": 3}
        hover = f"step %{{x}}, {_words(term)} on {SPLIT_NAMES[split]}: %{{y:.4g}}{_unit(term)}<extra></extra>"
        told: dict[str, Any] = {"legendgroup": split, "showlegend": split not in seen, "hovertemplate": hover}
        line = Scatter(x=steps, y=values, name=SPLIT_NAMES[split], **style, **told)
        figure.add_trace(line, row=terms.index(term) + 1, col=1)
        seen.add(split)
    for place, term in enumerate(terms, 1):
        values = [value for (name, _), (_, own) in lines.items() if name == term for value in own]
        figure.update_yaxes(title_text=_title(term), nticks=5, row=place, **axis_scale(values))
    figure.update_xaxes(title_text="step of training", row=len(terms))
    rows = [
        {"term": term, "split": split, "step": step, "value": value}
        for (term, split), points in lines.items()
        for step, value in zip(*points, strict=True)
    ]
    return Plot("Training", _course(lines, _left_out(history)), figure, rows)


def run_plot(run: Any) -> Plot | None:
    """The history of a run."""
    return history_plot(run.history)


def rate_distortion_plot(history: History) -> Plot | None:
    """Reconstruction against rate through training, with both ends; None where no row has both, or no rate is above 0.

    The way is that of the training items, or of the held-out ones where they are all there is.
    """
    from plotly.graph_objects import Figure, Scatter

    ways = {split: _way(history, split) for split in (TRAIN, TEST)}
    split = TRAIN if ways[TRAIN] else TEST
    steps, rates, distortions = _thin_way(ways[split])
    if not any(rate > 0 for rate in rates):
        return None
    hover = f"step %{{customdata}}, {SPLIT_NAMES[split]}<br>rate %{{x:.4g}} nats<br>reconstruction %{{y:.4g}} nats"
    colours: dict[str, Any] = {"color": steps, "colorscale": "Cividis", "colorbar": colour_bar("step of training")}
    way = Scatter(
        x=rates,
        y=distortions,
        customdata=steps,
        mode="lines+markers",
        name="through training",
        line={"color": "#b0b0b0", "width": 1},
        marker={"size": 7, **colours},
        hovertemplate=f"{hover}<extra></extra>",
    )
    figure = Figure(way)
    set_layout(figure, HEIGHT, t=84)
    ends = [(SPLIT_NAMES[split], BLACK, "circle-open", (steps[-1], rates[-1], distortions[-1]))]
    ends += [(SPLIT_NAMES[TEST], VERMILION, "diamond-open", ways[TEST][-1])] if split == TRAIN and ways[TEST] else []
    for name, colour, symbol, (step, rate, distortion) in ends:
        mark = {"size": 15, "symbol": symbol, "color": colour, "line": {"width": 3, "color": colour}}
        text = f"end, step {step}, {name}<br>rate %{{x:.4g}} nats<br>reconstruction %{{y:.4g}} nats<extra></extra>"
        point = Scatter(x=[rate], y=[distortion], name=f"end, {name}", mode="markers", marker=mark, hovertemplate=text)
        figure.add_trace(point)
    figure.update_xaxes(title_text="rate (nats)", **axis_scale(rates))
    figure.update_yaxes(title_text="reconstruction (nats)", **axis_scale(distortions))
    sentence = (
        f"From step {steps[0]} to {steps[-1]} the rate goes from {rates[0]:.4g} to {rates[-1]:.4g} nats and the "
        f"reconstruction loss from {distortions[0]:.4g} to {distortions[-1]:.4g} nats on {SPLIT_NAMES[split]} "
        f"(circle at the end{'; diamond: held-out items' if len(ends) > 1 else ''})."
    )
    columns = {"step": steps, "rate": rates, "reconstruction": distortions}
    rows = [dict(zip(("split", *columns), (split, *row), strict=True)) for row in zip(*columns.values(), strict=True)]
    rows += [
        {"split": TEST, "step": step, "rate": rate, "reconstruction": distortion}
        for *_, (step, rate, distortion) in ends[1:]
    ]
    return Plot("Rate and distortion", sentence, figure, rows)


def types_over_training_plot(history: History) -> Plot | None:
    """How many latents are active, mixed and passive at each look at the probe; None for fewer than two looks."""
    from plotly.graph_objects import Figure, Scatter

    looks = [row for row in history if row["split"] == PROBE and all(kind in row for kind in VARIABLE_TYPES)]
    if len(looks) < 2:
        return None
    shown = _changes(looks)
    steps = [look["step"] for look in shown]
    figure = Figure()
    set_layout(figure, HEIGHT, legend=True)
    for kind in VARIABLE_TYPES:
        look = TYPE_STYLES[kind]
        area = Scatter(
            x=steps,
            y=[row[kind] for row in shown],
            name=type_label(kind),
            stackgroup="types",
            line={"color": look.colour, "width": 2, "dash": look.dash, "shape": "hv"},
            fillpattern={"shape": look.pattern, "fgcolor": look.colour, "bgcolor": "#ffffff", "size": 7},
            hovertemplate=f"step %{{x}}: %{{y}} {kind}<extra></extra>",
        )
        figure.add_trace(area)
    figure.update_xaxes(title_text="step of training")
    figure.update_yaxes(title_text="number of latents", rangemode="tozero", tickformat="d", nticks=8)
    first, last = (", ".join(f"{look[kind]} {kind}" for kind in VARIABLE_TYPES) for look in (looks[0], looks[-1]))
    changed = [after["step"] for before, after in pairwise(looks) if _counts(before) != _counts(after)]
    since = "the counts never changed"
    if changed:
        moving = changed[-1] == looks[-1]["step"]
        since = "they changed up to the last look" if moving else f"the counts have stood since step {changed[-1]}"
    sentence = (
        f"The latents were {first} at step {looks[0]['step']} and are {last} at step {looks[-1]['step']}; {since}."
    )
    rows = [{"step": row["step"], **{kind: row[kind] for kind in VARIABLE_TYPES}} for row in shown]
    return Plot("Types over training", sentence, figure, rows)


def _lines(history: History) -> dict[tuple[str, str], tuple[list[int], list[float]]]:
    """The points of each term and split that has any."""
    rows = [row for row in history if row["split"] in SPLIT_NAMES]
    terms = dict.fromkeys(name for row in rows for name in row if name not in NOT_TERMS and is_number(row[name]))
    lines = {(term, split): series(rows, split, term) for term in terms for split in SPLIT_NAMES}
    return {key: points for key, points in lines.items() if points[0]}


def _way(history: History, split: str) -> list[tuple[int, float, float]]:
    """Step, rate and reconstruction of the rows that have them."""
    names = ("rate", "reconstruction")
    rows = [row for row in history if row["split"] == split and all(is_finite(row.get(name)) for name in names)]
    return [(row["step"], round_value(row["rate"]), round_value(row["reconstruction"])) for row in rows]


def _thin_way(way: list[tuple[int, float, float]]) -> tuple[list[Any], list[Any], list[Any]]:
    places = sorted(
        {place for column in (1, 2) for place in downsample([point[column] for point in way], MAX_POINTS // 2)}
    )
    kept = [way[place] for place in places] if len(way) > MAX_POINTS else way
    return [point[0] for point in kept], [point[1] for point in kept], [point[2] for point in kept]


def _changes(looks: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The first and last look and those where a count changed, between which all stand still."""
    inner = pairwise(looks[:-1])
    kept = [looks[0], *(after for before, after in inner if _counts(before) != _counts(after)), looks[-1]]
    if len(kept) <= MAX_POINTS:
        return kept
    places = {
        place
        for kind in VARIABLE_TYPES
        for place in downsample([row[kind] for row in kept], MAX_POINTS // len(VARIABLE_TYPES))
    }
    return [kept[place] for place in sorted(places)]


def _counts(look: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(look[kind] for kind in VARIABLE_TYPES)


def _course(lines: Mapping[tuple[str, str], tuple[list[int], list[float]]], left_out: int) -> str:
    """Where the loss began and ended."""
    parts = []
    for split, items in SPLIT_NAMES.items():
        steps, values = lines.get(("loss", split), ([], []))
        if steps:
            parts.append(f"from {values[0]:.4g} to {values[-1]:.4g} nats on {items}")
    last = max(steps[-1] for steps, _ in lines.values())
    text = f"Up to step {last} the loss goes {' and '.join(parts)}." if parts else f"The terms up to step {last}."
    missing = "1 value that is" if left_out == 1 else f"{left_out} values that are"
    return f"{text} Left out: {missing} not finite." if left_out else text


def _left_out(history: History) -> int:
    rows = [row for row in history if row["split"] in SPLIT_NAMES]
    return sum(is_number(value) and not is_finite(value) for row in rows for value in row.values())


def _words(term: str) -> str:
    return term.replace("_", " ")


def _unit(term: str) -> str:
    return "" if term in NO_UNIT else " nats"


def _title(term: str) -> str:
    unit = "" if term in NO_UNIT else "(nats)"
    return f"{_words(term)}{'<br>' if len(_words(term) + unit) >= WIDE else ' '}{unit}" if unit else _words(term)
