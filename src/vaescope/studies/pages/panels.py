"""Panels that the figures of studies are drawn in: where each stands, and what its axes say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vaescope.reporting import style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

PANEL, HEIGHT, GAP, AROUND, ENTRY = 200, 340, 60, 100, 22  # pixels; of a panel, of one alone, between, around, a name
ABREAST = 6  # panels above which two stand side by side
IN_A_ROW = 16  # letters of names that a row of the legend has room for on a telephone
WIDE, NARROW = 34, 18  # letters above a panel, alone and next to another
NOTHING = "nothing to draw: no finite numbers"


def panels_for(titles: Sequence[str], names: Sequence[str]) -> Figure:
    """Panels below each other, many of them two abreast, with room for the names of the legend on a telephone."""
    from plotly.subplots import make_subplots

    columns = _columns(len(titles))
    lines = -(-len(titles) // columns)
    legend = len(names) > 1
    above = _legend_rows(names) * ENTRY if legend else 0
    inner = HEIGHT if len(titles) == 1 else lines * PANEL + (lines - 1) * GAP
    figure = make_subplots(
        rows=lines,
        cols=columns,
        vertical_spacing=GAP / inner if lines > 1 else 0,
        horizontal_spacing=0.16 if columns > 1 else 0,
        subplot_titles=[style.shorten(title, WIDE if columns == 1 else NARROW) for title in titles]
        if titles != [""]
        else None,
    )
    style.set_layout(figure, inner + AROUND + above, legend=legend, t=34 + above)
    figure.update_annotations(font_size=style.FONT_SIZE)
    return figure


def name_axes(figure: Figure, panels: int, x_title: str, y_title: str) -> None:
    """The words of the axes, where they are not repeated: below the lowest panels, and at the left of each."""
    columns = _columns(panels)
    for place in range(panels):
        if place + columns >= panels:
            figure.update_xaxes(title_text=x_title, **where_is(place, panels))
        if place % columns == 0:
            figure.update_yaxes(title_text=y_title, **where_is(place, panels))


def _columns(panels: int) -> int:
    return 2 if panels > ABREAST else 1


def where_is(place: int, panels: int) -> dict[str, int]:
    """The row and the column of a panel."""
    columns = _columns(panels)
    return {"row": place // columns + 1, "col": place % columns + 1}


def _legend_rows(names: Sequence[str]) -> int:
    """Rows that the names take on a telephone, where all are as wide as the widest."""
    widest = max(len(name) for name in names)
    return -(-len(names) // max(1, 2 * IN_A_ROW // (widest + 6)))


def empty_figure() -> Figure:
    """A figure that says that it has nothing to show."""
    from plotly.graph_objects import Figure

    figure = Figure()
    style.set_layout(figure, AROUND)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    figure.add_annotation(text=NOTHING, showarrow=False, xref="paper", yref="paper", x=0.5, y=0.5)
    return figure
