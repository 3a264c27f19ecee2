"""Colours, symbols and the layout that all figures share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import plotly.graph_objects as go

from vaescope.numerics.variable_type_names import ACTIVE, MIXED, PASSIVE

# Okabe and Ito's palette, which colour-blind readers can distinguish; symbols and dashes differ too.
BLUE, VERMILION, GREEN, BLACK, GREY = "#0072B2", "#D55E00", "#009E73", "#000000", "#707070"
PURPLE = "#CC79A7"
GREEN_SHADE, BLUE_SHADE = "rgba(0, 158, 115, 0.2)", "rgba(0, 114, 178, 0.12)"
# The two cycles have coprime lengths, so few groups share both colour and symbol.
CYCLE = (BLUE, VERMILION, GREEN, PURPLE, BLACK)
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "x", "star")
TEXT, GRID, AXIS, PAPER = "#1a1a1a", "#e5e5e5", "#b0b0b0", "#ffffff"
# One hue from light to dark keeps the order for colour-blind readers and in print; black text is readable on DEEP.
LIGHTEST, DEEP, DARKEST = "#F7FBFF", "#4292C6", "#08306B"
SCALE = ((0.0, LIGHTEST), (0.5, DEEP), (1.0, DARKEST))  # of areas
TEXT_SCALE = ((0.0, LIGHTEST), (1.0, DEEP))  # of areas with text
MARK_SCALE = ((0.0, "#9ECAE1"), (1.0, DARKEST))  # of marks on paper
# Colour of a figure -> the colour that replaces it on a dark page, in any notation that figures use.
DARK_COLOURS = {
    BLUE: "#56B4E9",
    VERMILION: "#FF9A4A",
    GREEN: "#3FCF9F",
    PURPLE: "#E09CC0",
    BLACK: "#FFFFFF",
    GREY: "#A3A3A3",
    TEXT: "#E8EAED",
    GRID: "#33383D",
    AXIS: "#767B80",
    PAPER: "#15181B",
    GREEN_SHADE: "rgba(63, 207, 159, 0.25)",
    BLUE_SHADE: "rgba(86, 180, 233, 0.18)",
    LIGHTEST: "#1B2733",
    DEEP: "#2F6EA8",
    DARKEST: "#CFE6F8",
    MARK_SCALE[0][1]: "#2B5D8C",
}
FONT_SIZE = 14  # pixels
BELOW_NUMBERS = 38  # pixels from an x axis to its title, where plotly does not count the numbers between
FONT = {"family": "system-ui, sans-serif", "size": FONT_SIZE, "color": TEXT}
LOG_DECADES = 3  # range of positive values above which an axis is logarithmic
SIGNIFICANT_DIGITS = 6
MAX_LABEL_LENGTH = 26  # maximum number of characters on a phone


@dataclass(frozen=True)
class TypeStyle:
    """How latents of one type are drawn; `sign` stands before the name of the type."""

    colour: str
    sign: str
    symbol: str
    dash: str
    pattern: str

    def fill(self) -> dict[str, object]:
        """The pattern of bars and areas."""
        return {"shape": self.pattern, "fgcolor": self.colour, "bgcolor": PAPER, "size": 7}


TYPE_STYLES = {
    ACTIVE: TypeStyle(BLUE, "●", "circle", "solid", ""),
    MIXED: TypeStyle(VERMILION, "◆", "diamond", "dash", "/"),
    PASSIVE: TypeStyle(GREY, "○", "circle-open", "dot", "."),
}


def type_label(kind: str) -> str:
    """A type of latents with its sign, as in legends."""
    return f"{TYPE_STYLES[kind].sign} {kind}"


def set_layout(figure: go.Figure, height: int, *, legend: bool = False, **margins: int) -> None:
    """Apply the shared layout: full page width, `height` pixels, the legend in a row at the top."""
    figure.update_layout(
        template="none",
        height=height,
        autosize=True,
        font=FONT,
        paper_bgcolor=PAPER,
        plot_bgcolor=PAPER,
        margin={"l": 64, "r": 16, "t": 48 if legend else 28, "b": 48, **margins},
        showlegend=legend,
        legend={"orientation": "h", "traceorder": "normal", "x": 0, "y": 1, "xanchor": "left", "yanchor": "top"},
        legend_xref="container",
        legend_yref="container",
        hoverlabel={"font": {"size": FONT_SIZE}, "namelength": -1},
    )
    lines = {"gridcolor": GRID, "zerolinecolor": AXIS, "linecolor": GREY, "automargin": True}
    figure.update_yaxes(**lines, title_standoff=8, title_font_size=FONT_SIZE)
    figure.update_xaxes(**lines, title_standoff=10, title_font_size=FONT_SIZE)


def axis_scale(values: Iterable[float]) -> dict[str, object]:
    """Axis options for the values: logarithmic if they are positive and span more than three decades."""
    known = list(values)
    if min(known) > 0 and max(known) > 10**LOG_DECADES * min(known):
        return {"type": "log", "dtick": 1, "tickformat": "~g"}
    return {"type": "linear"}


def colour_bar(title: str) -> dict[str, object]:
    """A horizontal colour bar above the panel, so that the panel keeps its width."""
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
    """Round to the digits that a figure can show, which keeps the page small."""
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")


def shorten(name: str, length: int = MAX_LABEL_LENGTH) -> str:
    """Cut the middle out of a long name; the ends distinguish it from others."""
    if len(name) <= length:
        return name
    end = (length - 1) // 2
    return f"{name[: length - 1 - end]}…{name[-end:]}"


def plural(count: int, noun: str) -> str:
    """'1 latent', '2 latents'."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
