"""The sheet on which a figure of a study is drawn: panels, their axes, and the legend above them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING, Any

from vaescope.reporting import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SINGLE_WIDTH, FULL_WIDTH = 5.4, 7.2  # inches; of a figure with one panel, with several
NARROWEST = 3.6  # inches; of a figure with few bars
SINGLE_HEIGHT, PANEL_HEIGHT = 3.0, 1.75  # inches; of the area with data
AROUND, TITLE, LEGEND_ROW = 0.65, 0.22, 0.2  # inches; below and above a panel, of its title, of names in a legend
LETTER, SLANTED = 0.072, 0.036  # inches; of a letter of a name on average, and what it needs below when slanted
MAX_TICKS = 8  # chosen values that have a tick each
MIN_TICK_GAP = 0.28  # inches between two ticks
MAX_WRAPPED_LINES = 3
ROUND_STEPS = (1, 2, 5, 10)  # of ticks
STYLE = {
    "svg.fonttype": "path",  # so that browsers without the font show the same
    "text.parse_math": False,
    "image.composite_image": False,
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.edgecolor": style.GREY,
    "axes.labelcolor": style.TEXT,
    "text.color": style.TEXT,
    "xtick.color": style.TEXT,
    "ytick.color": style.TEXT,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8.5,
    "legend.handlelength": 2.6,
    "legend.borderaxespad": 0.2,
    "legend.borderpad": 0.2,
    "grid.color": style.GRID,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.labelsize": 9,
    "axes.formatter.limits": (-4, 6),
    "hatch.linewidth": 0.8,
    "hatch.color": "white",
}


class Sheet:
    """A figure with a panel for each title, in rows, with room above for `names` in the legend.

    `categories` are the names of the places on the x axes, a tuple for each panel; a single panel with few of them,
    each `breadth` inches wide, is narrow.
    """

    def __init__(
        self,
        titles: Sequence[str],
        names: Sequence[str] = (),
        *,
        columns: int | None = None,
        categories: Sequence[Sequence[str]] = (),
        breadth: float = FULL_WIDTH,
    ) -> None:
        from matplotlib.figure import Figure

        self.count = len(titles)
        self.columns = columns or columns_of_panels(self.count)
        self.rows = -(-self.count // self.columns)
        self.width = SINGLE_WIDTH if self.count == 1 else FULL_WIDTH
        if categories and self.count == 1:
            self.width = min(self.width, max(NARROWEST, AROUND + breadth * len(categories[0])))
        self.panel_width = self.width / self.columns - AROUND
        height = SINGLE_HEIGHT if self.count == 1 else PANEL_HEIGHT
        titled = TITLE * max(len(self._wrapped(title)) for title in titles) if any(titles) else 0.05
        # With slanted names in one panel, all have them, so that their areas are of one height.
        self.is_slanted = any(_is_slanted(own, self.panel_width) for own in categories)
        slanted = SLANTED * max((len(name) for own in categories for name in own), default=0) if self.is_slanted else 0
        self.legend_columns = self._legend_columns(names)
        above = LEGEND_ROW * -(-len(names) // self.legend_columns) + 0.1 if names else 0
        tall = self.rows * (height + AROUND + titled + slanted) + above
        self.figure: Figure = Figure((self.width, tall))
        grid = self.figure.subplots(self.rows, self.columns, squeeze=False)
        self.panels: list[Axes] = list(grid.flat)[: self.count]
        for empty in list(grid.flat)[self.count :]:
            empty.set_axis_off()
        for axes, title in zip(self.panels, titles, strict=True):
            axes.set_title("\n".join(self._wrapped(title)))
            axes.tick_params(length=3, color=style.AXIS)

    def name_categories(self, axes: Axes, names: Sequence[str]) -> None:
        """The names of the places on the x axis of a panel, in lines, or slanted where they are long."""
        if self.is_slanted:
            axes.set_xticks(range(len(names)), list(names), rotation=35, ha="right", rotation_mode="anchor")
        else:
            wrapped = _wrapped_names(names, self.panel_width)
            axes.set_xticks(range(len(names)), ["\n".join(lines) for lines in wrapped])

    def name_axes(self, x_title: str, y_title: str) -> None:
        """The title of the x axis below the lowest panels, that of the y axis left of each row."""
        for place, axes in enumerate(self.panels):
            if place + self.columns >= self.count:
                axes.set_xlabel(x_title)
            if place % self.columns == 0:
                axes.set_ylabel(y_title)

    def legend(self, entries: Sequence[Any]) -> None:
        """One legend for all panels, above them, where it hides no data."""
        if entries:
            names = [entry.get_label() for entry in entries]
            self.figure.legend(entries, names, loc="upper left", ncols=self.legend_columns)

    def _legend_columns(self, names: Sequence[str]) -> int:
        if not names:
            return 1
        most = max(1, int(self.width / (LETTER * max(map(len, names)) + 0.6)))
        rows = -(-len(names) // most)
        return -(-len(names) // rows)

    def _wrapped(self, title: str) -> list[str]:
        return textwrap.wrap(title, max(8, int((self.panel_width + 0.3) / LETTER))) or [""]


def columns_of_panels(count: int) -> int:
    """The number of columns in which panels are placed."""
    return {1: 1, 2: 2, 4: 2}.get(count, 3)


def set_grid(axes: Axes, which: str = "y") -> None:
    """Light lines behind the data."""
    axes.grid(True, axis=which)  # type: ignore[arg-type]


def _wrapped_names(names: Sequence[str], width: float) -> list[list[str]]:
    """The lines of each name where each has its share of `width` inches."""
    letters = max(4, int(width / len(names) / LETTER))
    return [textwrap.wrap(name, letters, break_long_words=False) or [""] for name in names]


def _is_slanted(names: Sequence[str], width: float) -> bool:
    """Whether names are too long to stand next to each other in a panel of `width` inches."""
    letters = max(4, int(width / len(names) / LETTER))
    lines = _wrapped_names(names, width)
    return max(map(len, lines)) > MAX_WRAPPED_LINES or any(len(line) > letters + 1 for own in lines for line in own)


def set_scale(axes: Axes, which: str, is_log: bool, values: Sequence[float] = (), inches: float = 0.0) -> None:
    """Scale and ticks of an axis that is `inches` long; few chosen `values` have a tick each if there is room."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    if is_log:
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        axis.set_minor_locator(NullLocator())
    known = sorted(set(values))
    if 1 <= len(known) <= MAX_TICKS and _have_room(known, is_log, inches):
        axis.set_ticks(known, [f"{value:g}" for value in known])
    elif is_log:
        low, high = axis.get_data_interval()
        # Within two decades the powers of ten alone would be one or two ticks.
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 100 * low else (1.0,), numticks=7))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axis.set_major_locator(MaxNLocator(6 if which == "x" else 7, steps=ROUND_STEPS))


def _have_room(known: Sequence[float], is_log: bool, inches: float) -> bool:
    """Whether ticks at the values are far enough from each other."""
    places = [log(value) if is_log else value for value in known]
    if len(places) == 1:
        return True
    span = places[-1] - places[0]
    gap = min(high - low for low, high in pairwise(places))
    return 0.9 * inches * gap / span >= MIN_TICK_GAP


def laid_out(figure: Figure, rows: int = 1) -> Figure:
    """The figure with its rows of panels moved so that nothing overlaps, below the legend.

    Matplotlib finds the places of the panels in one pass. With its own layout engine, or with the room of the legend
    given to it, it would need two or three.
    """
    from matplotlib.layout_engine import TightLayoutEngine

    TightLayoutEngine(pad=0.3, h_pad=0.8, w_pad=0.9).execute(figure)
    whole = figure.bbox.height
    taken = max(((whole - legend.get_window_extent().y0) / whole for legend in figure.legends), default=0.0)
    found = figure.subplotpars
    tall = (found.top - found.bottom) / (rows + found.hspace * (rows - 1))
    # The panels become less high; what lies between them keeps its height.
    between = found.hspace * tall
    figure.subplots_adjust(top=found.top - taken, hspace=between / (tall - taken / rows))
    return figure


def empty_figure() -> Figure:
    """What stands in the place of a figure without numbers."""
    from matplotlib.figure import Figure

    figure = Figure((SINGLE_WIDTH, 0.6))
    figure.text(0.5, 0.5, "nothing to draw: no finite numbers", ha="center", va="center")
    return figure
