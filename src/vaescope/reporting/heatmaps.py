"""Matrices as pictures: similarities of models and of layers, and what latents carry of factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from vaescope.metrics.meaning import Meaning
from vaescope.reporting.style import BLACK, colour_bar, set_layout, shorten

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

CELL, AROUND, LEAST, LETTER = 34, 140, 320, 8  # pixels
LEAST_CELL, TALLEST = 8, 900  # of many rows
MANY = 30  # rows or columns up to which each has its name
DECIMALS = 4
# One hue from light to dark: colour-blind people, and printers, keep the order.
LIGHTEST, DARKEST = "#F7FBFF", "#4292C6"
FEW = 10  # columns up to which each cell has its number


def heatmap(
    matrix: Float[np.ndarray, "rows columns"],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    of: str,
    largest: float | None = 1.0,
    axes: tuple[str, str] = ("", ""),
) -> Figure:
    """One cell for each pair, light for 0 and dark for `largest`, with its number where there is room.

    Without `largest` it is the largest number of the matrix. Cells that are not a number stay empty. `axes` are the
    titles of columns and rows.
    """
    from plotly import graph_objects

    values = np.asarray(matrix, dtype=np.float64).round(DECIMALS)
    options = _numbers(values) if len(columns) <= FEW else {"colorscale": "Blues"}
    most = largest if largest is not None else float(np.nanmax(values, initial=0.0))
    drawn = graph_objects.Heatmap(
        z=[[None if np.isnan(value) else value for value in row] for row in values.tolist()],
        x=list(columns),
        y=list(rows),
        zmin=0,
        zmax=most or 1.0,
        colorbar=colour_bar(of),
        hovertemplate=f"%{{y}}, %{{x}}: %{{z:.3f}} ({of})<extra></extra>",
        hoverongaps=False,
        **options,
    )
    figure = graph_objects.Figure(drawn)
    cell = min(CELL, max(LEAST_CELL, TALLEST // len(rows)))
    below = LETTER * max(len(shorten(name)) for name in columns)
    set_layout(figure, max(LEAST, cell * len(rows) + AROUND + below), l=10, t=76, b=10)
    # Upright or level: names aslant would push the panel aside.
    upright: dict[str, Any] = {"autotickangles": [0, 90], "title_standoff": None}
    figure.update_xaxes(title_text=axes[0], side="bottom", **upright, **_ticks(columns))
    # The first row on top, as in a table.
    figure.update_yaxes(title_text=axes[1], autorange="reversed", **_ticks(rows))
    return figure


def _numbers(values: Float[np.ndarray, "rows columns"]) -> dict[str, Any]:
    """The number of each cell, without the 0 before the point, which a telephone has no room for."""
    texts = [["" if np.isnan(value) else _told(value) for value in row] for row in values.tolist()]
    # No darker than black can be read on.
    return {"text": texts, "texttemplate": "%{text}", "textfont": {"color": BLACK}, "colorscale": [LIGHTEST, DARKEST]}


def _told(value: float) -> str:
    text = f"{value:.2f}"
    return text.rstrip("0").rstrip(".") if value >= 1 else text.removeprefix("0")


def _ticks(names: Sequence[str]) -> dict[str, Any]:
    """An axis with every name, shortened where it is long; of many, those that plotly finds room for.

    Ticks are placed by name: a place by number would be taken for the category of that name, where there is one.
    """
    every = {"tickmode": "array", "tickvals": list(names), "ticktext": [shorten(name) for name in names]}
    return {"type": "category", "showgrid": False, **(every if len(names) <= MANY else {})}


def meaning_heatmap(found: Meaning) -> Figure:
    """Bits that each latent carries of each factor."""
    rows = [f"latent {place}" for place in found.latents]
    return heatmap(found.bits, rows, found.factors, of="bits", largest=None)
