"""Colours, marks and the layout that all figures share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vaescope.numerics.variable_type_names import ACTIVE, MIXED, PASSIVE

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# Okabe and Ito's colours, which colour-blind people can tell apart; shapes and dashes differ too.
BLUE, VERMILION, GREEN, BLACK, GREY = "#0072B2", "#D55E00", "#009E73", "#000000", "#707070"
PURPLE = "#CC79A7"
GREEN_SHADE, BLUE_SHADE = "rgba(0, 158, 115, 0.2)", "rgba(0, 114, 178, 0.12)"
# For things in any number: colours and symbols go round at different lengths, so that few pairs come twice.
CYCLE = (BLUE, VERMILION, GREEN, PURPLE, BLACK)
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "x", "star")
TEXT, GRID = "#1a1a1a", "#e5e5e5"
FONT_SIZE = 14  # pixels; of all text
FONT = {"family": "system-ui, sans-serif", "size": FONT_SIZE, "color": TEXT}
DECADES = 3  # of positive values, above which an axis is logarithmic
DIGITS = 6  # significant ones that a figure keeps of a number
LONGEST = 26  # letters of a name that a telephone has room for


@dataclass(frozen=True)
class TypeStyle:
    """How a type of latents is drawn: colour, the sign beside its name, symbol, dash, and the pattern of areas."""

    colour: str
    sign: str
    symbol: str
    dash: str
    pattern: str


TYPE_STYLES = {
    ACTIVE: TypeStyle(BLUE, "●", "circle", "solid", ""),
    MIXED: TypeStyle(VERMILION, "◆", "diamond", "dash", "/"),
    PASSIVE: TypeStyle(GREY, "○", "circle-open", "dot", "."),
}


def type_label(kind: str) -> str:
    """A type with its sign, as in legends."""
    return f"{TYPE_STYLES[kind].sign} {kind}"


def set_layout(figure: Figure, height: int, *, legend: bool = False, **margins: int) -> None:
    """The common look: as wide as the page, `height` pixels high, the legend in a row on top."""
    figure.update_layout(
        template="none",
        height=height,
        autosize=True,
        font=FONT,
        margin={"l": 64, "r": 16, "t": 48 if legend else 28, "b": 48, **margins},
        showlegend=legend,
        legend={"orientation": "h", "traceorder": "normal", "x": 0, "y": 1, "xanchor": "left", "yanchor": "top"},
        legend_xref="container",
        legend_yref="container",
        hoverlabel={"font": {"size": FONT_SIZE}, "namelength": -1},
    )
    lines: dict[str, Any] = {"gridcolor": GRID, "zerolinecolor": "#b0b0b0", "linecolor": GREY, "automargin": True}
    figure.update_yaxes(**lines, title_standoff=8, title_font_size=FONT_SIZE)
    figure.update_xaxes(**lines, title_standoff=10, title_font_size=FONT_SIZE)


def axis_scale(values: Iterable[float]) -> dict[str, Any]:
    """The options of an axis for these values: logarithmic only where they are positive and span many decades."""
    known = list(values)
    if min(known) > 0 and max(known) > 10**DECADES * min(known):
        return {"type": "log", "dtick": 1, "tickformat": "~g"}
    return {"type": "linear"}


def colour_bar(title: str) -> dict[str, Any]:
    """A bar of colours that lies above the panel, where it takes no width from it."""
    return {
        "title": {"text": title, "side": "top", "font": {"size": FONT_SIZE}},
        "orientation": "h",
        "thickness": 12,
        "x": 0,
        "xanchor": "left",
        "y": 1,
        "yanchor": "bottom",
        "len": 1,
        "nticks": 5,
    }


def round_value(value: float) -> float:
    """What a figure keeps of a number: more digits than anyone sees would only make the page larger."""
    return float(f"{value:.{DIGITS}g}")


def shorten(name: str, letters: int = LONGEST) -> str:
    """A name that fits: the middle of a long one gives way, for its ends tell it from others."""
    if len(name) <= letters:
        return name
    end = (letters - 1) // 2
    return f"{name[: letters - 1 - end]}…{name[-end:]}"
