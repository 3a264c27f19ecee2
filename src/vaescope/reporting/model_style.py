"""How each of several compared models is drawn: one colour and one symbol, the same in tables, pictures and plots."""

from __future__ import annotations

from dataclasses import dataclass

from vaescope.markup import Markup, element

# Colour-blind readers can distinguish them, and each has a contrast of 3 or more on white and on dark pages. The first
# are not those of types of latents; none is replaced on a dark page, so that marks and plots agree.
MODEL_COLOURS = ("#A21AFC", "#03A28A", "#D65F00", "#0073B3", "#7D85FD")


@dataclass(frozen=True)
class Symbol:
    """A symbol in plotly, as a letter, and as a path in a box of 16 x 16."""

    plotly: str
    sign: str
    path: str


# The numbers of colours and symbols have no common divisor: 35 models differ.
SYMBOLS = (
    Symbol("circle", "●", "M8 2a6 6 0 1 0 .01 0z"),
    Symbol("square", "■", "M3 3h10v10H3z"),
    Symbol("triangle-up", "▲", "M8 2l7 12H1z"),
    Symbol("diamond", "◆", "M8 1l6 7-6 7-6-7z"),
    Symbol("cross", "✚", "M6 2h4v4h4v4h-4v4H6v-4H2V6h4z"),
    Symbol("x", "✖", "M4 1l4 4 4-4 3 3-4 4 4 4-3 3-4-4-4 4-3-3 4-4-4-4z"),
    Symbol("star", "★", "M8 1l2 5h5l-4 3.3 1.5 5.2L8 11.4l-4.5 3.1L5 9.3 1 6h5z"),
)
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


@dataclass(frozen=True)
class ModelStyle:
    """How one model is drawn."""

    colour: str
    symbol: Symbol
    dash: str

    def tick(self, name: str) -> str:
        """A name with the coloured sign, as text of a plotly axis."""
        return f'<span style="color:{self.colour}">{self.symbol.sign}</span> {name}'

    def mark(self) -> Markup:
        """The symbol as a small picture; the name next to it says the same."""
        path = element("path", d=self.symbol.path, fill=self.colour)
        return element("svg", path, viewBox="0 0 16 16", width=13, height=13, class_="mark", aria_hidden="true")

    def label(self, name: str) -> Markup:
        """The symbol and the name."""
        return element("span", self.mark(), " ", name, class_="model")


def model_style(place: int) -> ModelStyle:
    """The style of the model at this place in the comparison."""
    colour, symbol = MODEL_COLOURS[place % len(MODEL_COLOURS)], SYMBOLS[place % len(SYMBOLS)]
    return ModelStyle(colour, symbol, DASHES[place % len(DASHES)])
