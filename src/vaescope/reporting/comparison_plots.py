"""Runs side by side: losses, rate against reconstruction, types of latents, and how alike they are."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from vaescope.diagnosis.compare import Comparison
from vaescope.numerics.variable_type_names import ACTIVE, PASSIVE, VARIABLE_TYPES
from vaescope.objectives import OBJECTIVES
from vaescope.reporting.downsample import SPLIT_NAMES, TEST, TRAIN, History, is_finite, series
from vaescope.reporting.heatmaps import heatmap
from vaescope.reporting.loss_panels import Losses, lowest, overlaid, small_multiples
from vaescope.reporting.plots import Plot
from vaescope.reporting.style import (
    CYCLE,
    SYMBOLS,
    TYPE_STYLES,
    axis_scale,
    round_value,
    set_layout,
    shorten,
    type_label,
)
from vaescope.similarity import SimilarityMap

PANELS = 12  # small ones; more losses are drawn in one
POINTS = 150  # of a line in a small panel
AROUND, HEIGHT, BAR, LEAST_BAR, TALLEST = 110, 420, 30, 10, 1500  # pixels
LABELLED, ENTRY = 12, 18  # points up to which each is numbered, and the pixels that its name takes
TITLE = 16  # letters of a name beside a bar or in a legend
MANY_TICKS = 8

Row = Mapping[str, Any]


def losses_plot(histories: Sequence[tuple[str, History | None]]) -> Plot | None:
    """The loss of each run on one scale, in small panels or, for many, in one; None where no history has any.

    It is that on held-out items where every run has it, else on training items.
    """
    known = [(name, history) for name, history in histories if history and any("loss" in row for row in history)]
    split = TEST if all(series(history, TEST, "loss")[0] for _, history in known) else TRAIN
    found = {name: series(history, split, "loss", POINTS) for name, history in known}
    losses: Losses = {name: points for name, points in found.items() if points[0]}
    if not losses:
        return None
    figure = small_multiples(losses) if len(losses) <= PANELS else overlaid(losses)
    figure.update_yaxes(**axis_scale(value for _, own in losses.values() for value in own))
    least = lowest(losses)
    without = len(histories) - len(losses)
    sentence = (
        f"The loss on {SPLIT_NAMES[split]} of {len(losses)} runs ends lowest in {least}, "
        f"at {losses[least][1][-1]:.4g} nats" + (f"; {without} without a history." if without else ".")
    )
    rows = [
        {"name": name, "split": split, "step": step, "loss": value}
        for name, points in losses.items()
        for step, value in zip(*points, strict=True)
    ]
    return Plot("Losses", sentence, figure, rows)


def rates_plot(rows: Sequence[Row]) -> Plot | None:
    """Rate against reconstruction at the end of each run, symbols by objective; None where no run has both.

    `rows` are those of `runs.summary`, with a `name` where it is not the id. The numbers are those on held-out items
    where every run has them, else on training items. Few runs are numbered, and the legend tells which they are.
    """
    from plotly.graph_objects import Figure, Scatter

    ended = [row for row in rows if _ends(row, TEST) or _ends(row, TRAIN)]
    split = TEST if all(_ends(row, TEST) for row in ended) else TRAIN
    points = [(row, *ends) for row in ended if (ends := _ends(row, split)) is not None]
    if not points:
        return None
    numbered = len(points) <= LABELLED
    objectives = list(dict.fromkeys(_objective(row) for row, *_ in points))
    figure = Figure()
    set_layout(figure, HEIGHT + (ENTRY * len(points) if numbered else 0), legend=True)
    for number, (row, rate, distortion) in enumerate(points, 1):
        place = objectives.index(_objective(row))
        mark = {"size": 10, "color": CYCLE[place % len(CYCLE)], "symbol": SYMBOLS[place % len(SYMBOLS)]}
        hover = f"{_told(row)}<br>rate %{{x:.4g}} nats<br>reconstruction %{{y:.4g}} nats<extra></extra>"
        point = Scatter(x=[rate], y=[distortion], mode="markers", marker=mark, hovertemplate=hover, cliponaxis=False)
        if numbered:
            name = f"{number} {shorten(_name(row), TITLE)}"
            point.update(name=name, mode="markers+text", text=[str(number)], textposition="top center")
        else:
            known = any(trace.name == _objective(row) for trace in figure.data)
            point.update(name=_objective(row), showlegend=not known)
        figure.add_trace(point)
    figure.update_xaxes(title_text="rate (nats)", **axis_scale([rate for _, rate, _ in points]))
    figure.update_yaxes(title_text="reconstruction (nats)", **axis_scale([distortion for *_, distortion in points]))
    told = [{"name": _name(row), "split": split, "rate": one, "reconstruction": other} for row, one, other in points]
    least, most = (pick(points, key=lambda point: point[1]) for pick in (min, max))
    sentence = (
        f"On {SPLIT_NAMES[split]} the rate goes from {least[1]:.4g} nats ({_name(least[0])}, reconstruction "
        f"{least[2]:.4g}) to {most[1]:.4g} ({_name(most[0])}, {most[2]:.4g})."
    )
    return Plot("Rate and reconstruction", sentence, figure, told)


def types_over_strength_plot(rows: Sequence[Row]) -> Plot | None:
    """Mean counts of types against the strength that differs between runs, with the range over runs of one strength.

    None where no strength of the objectives differs, or several do, and where no run has types.
    """
    from plotly.graph_objects import Figure, Scatter

    typed = [row for row in rows if _has_types(row)]
    name = _differing(typed)
    if name is None:
        return None
    values = sorted({row[name] for row in typed if name in row})
    told = [_over_runs([row for row in typed if row.get(name) == value], name, value) for value in values]
    figure = Figure()
    set_layout(figure, HEIGHT, legend=True)
    for kind in VARIABLE_TYPES:
        look, means = TYPE_STYLES[kind], [row[kind] for row in told]
        figure.add_trace(
            Scatter(
                x=values,
                y=means,
                name=type_label(kind),
                mode="lines+markers",
                line={"color": look.colour, "width": 2, "dash": look.dash},
                marker={"symbol": look.symbol, "size": 10},
                error_y={
                    "type": "data",
                    "symmetric": False,
                    "array": [row[f"{kind}_most"] - row[kind] for row in told],
                    "arrayminus": [row[kind] - row[f"{kind}_least"] for row in told],
                    "width": 5,
                },
                customdata=[[row[f"{kind}_least"], row[f"{kind}_most"], row["runs"]] for row in told],
                hovertemplate=f"{name} %{{x}}: %{{y:.3g}} {kind} (%{{customdata[0]}} to %{{customdata[1]}} over "
                "%{customdata[2]} runs)<extra></extra>",
            )
        )
    figure.update_xaxes(title_text=name.replace("_", " "), zeroline=False, **_strength_axis(values))
    figure.update_yaxes(title_text="number of latents", rangemode="tozero")
    first, last = (", ".join(f"{row[kind]:.3g} {kind}" for kind in VARIABLE_TYPES) for row in (told[0], told[-1]))
    sentence = f"On average {first} at {name} {values[0]:g}, and {last} at {values[-1]:g}."
    return Plot(f"Types over {name.replace('_', ' ')}", sentence, figure, told)


def types_plot(rows: Sequence[Row]) -> Plot | None:
    """How many latents of each type every run has; None where no run has types."""
    from plotly.graph_objects import Bar, Figure

    typed = [row for row in rows if _has_types(row)]
    if not typed:
        return None
    names = [_name(row) for row in typed]
    figure = Figure()
    bar = min(BAR, max(LEAST_BAR, TALLEST // len(typed)))
    set_layout(figure, bar * len(typed) + AROUND, legend=True, l=10)
    for kind in VARIABLE_TYPES:
        look = TYPE_STYLES[kind]
        figure.add_trace(
            Bar(
                x=[row[kind] for row in typed],
                y=list(range(len(names))),
                orientation="h",
                name=type_label(kind),
                customdata=[_told(row) for row in typed],
                marker={
                    "color": look.colour,
                    "line": {"color": look.colour, "width": 1},
                    "pattern": {"shape": look.pattern, "fgcolor": look.colour, "bgcolor": "#ffffff", "size": 7},
                },
                hovertemplate=f"%{{customdata}}<br>%{{x}} {kind}<extra></extra>",
            )
        )
    figure.update_layout(barmode="stack", bargap=0.25)
    figure.update_xaxes(title_text="number of latents", tickformat="d")
    shown = {"tickvals": list(range(len(names))), "ticktext": [shorten(name, TITLE) for name in names]}
    plain = {"autorange": "reversed", "showgrid": False, "zeroline": False}
    figure.update_yaxes(**plain, **(shown if bar == BAR else {"title_text": "model"}))
    active, passive = [row[ACTIVE] for row in typed], fmean(row[PASSIVE] for row in typed)
    span = str(active[0]) if min(active) == max(active) else f"{min(active)} to {max(active)}"
    sentence = f"{len(typed)} models with {span} active latents each, and {passive:.3g} passive ones on average."
    told = [{"name": _name(row), **{kind: row[kind] for kind in VARIABLE_TYPES}} for row in typed]
    return Plot("Types of latents", sentence, figure, told)


def similarity_plot(found: Comparison) -> Plot:
    """How alike the codes of each two subjects are."""
    figure = heatmap(found.matrix, found.names, found.names, of=found.measure, axes=("model", "model"))
    return Plot("Similarity of codes", f"{found.summary()}.", figure, found.pairs())


def layer_plots(found: Comparison) -> tuple[Plot, ...]:
    """How alike the layers of the first two subjects are; none where they were not compared."""
    if found.layers is None:
        return ()
    (one, other), layers = found.names[:2], found.layers
    axes = (f"layer of {shorten(other)}", f"layer of {shorten(one)}")
    figure = heatmap(layers.matrix, layers.rows, layers.columns, of=layers.measure, axes=axes)
    sentence = f"Layers of {one} (rows) and of {other} (columns): {layers.summary()}."
    return (Plot("Similarity of layers", sentence, figure, layers.table()),)


def map_plot(found: SimilarityMap) -> Plot:
    """A map of layers or groups by itself."""
    figure = heatmap(found.matrix, found.rows, found.columns, of=found.measure)
    return Plot("Similarity", f"{found.summary()}.", figure, found.table())


def _name(row: Row) -> str:
    return str(row.get("name", row.get("id", "")))


def _objective(row: Row) -> str:
    return str(row.get("objective", "codes")).replace("_", " ")


def _told(row: Row) -> str:
    """The name and the settings that tell runs apart, for hovering."""
    names = ("objective", *_strengths(), "latents", "seed")
    return "<br>".join([_name(row), ", ".join(f"{name} {row[name]}" for name in names if name in row)])


def _ends(row: Row, split: str) -> tuple[float, float] | None:
    """Rate and reconstruction at the end, where both are finite numbers."""
    rate, distortion = (row.get(f"{split}_{name}", math.nan) for name in ("rate", "reconstruction"))
    return (round_value(rate), round_value(distortion)) if is_finite(rate) and is_finite(distortion) else None


def _has_types(row: Row) -> bool:
    return all(isinstance(row.get(kind), int) for kind in VARIABLE_TYPES)


def _strengths() -> list[str]:
    """The names of all fields of objectives, beta first."""
    fields = [field.name for objective in OBJECTIVES.values() for field in dataclasses.fields(objective)]
    return sorted(dict.fromkeys(fields), key=lambda name: name != "beta")


def _differing(rows: Sequence[Row]) -> str | None:
    """The one strength that runs differ in."""
    values = {name: {row[name] for row in rows if isinstance(row.get(name), int | float)} for name in _strengths()}
    found = [name for name, known in values.items() if len(known) > 1]
    return found[0] if len(found) == 1 else None


def _over_runs(rows: Sequence[Row], name: str, value: float) -> dict[str, Any]:
    """The mean count of each type, the least and the most."""
    told: dict[str, Any] = {name: value, "runs": len(rows)}
    for kind in VARIABLE_TYPES:
        counts = [row[kind] for row in rows]
        told |= {kind: fmean(counts), f"{kind}_least": min(counts), f"{kind}_most": max(counts)}
    return told


def _strength_axis(values: Sequence[float]) -> dict[str, Any]:
    """Strengths are mostly doubled, hence logarithmic unless one is 0; each has its tick where they are few."""
    kind = {"type": "log" if min(values) > 0 else "linear"}
    if len(values) > MANY_TICKS:
        return kind
    return {**kind, "tickmode": "array", "tickvals": list(values), "ticktext": [f"{value:g}" for value in values]}
