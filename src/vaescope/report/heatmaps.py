"""Matrices as pictures: similarities of models and of layers, and what latents carry of factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from vaescope.metrics.meaning import Meaning
from vaescope.report.comparison import Comparison
from vaescope.report.figures import write_html

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

CELL, AROUND, LEAST = 34, 190, 320  # pixels
FEW = 12  # columns up to which each cell has its number


def heatmap(
    matrix: Float[np.ndarray, "rows columns"],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    of: str,
    largest: float | None = 1.0,
) -> Figure:
    """One cell for each pair, light for 0 and dark for `largest`, with its number where there is room."""
    from plotly import graph_objects

    options: dict[str, Any] = {"texttemplate": "%{z:.2f}"} if len(columns) <= FEW else {}
    drawn = graph_objects.Heatmap(
        z=np.asarray(matrix),
        x=list(columns),
        y=list(rows),
        zmin=0,
        zmax=largest,
        # One hue from light to dark: colour-blind people, and printers, keep the order.
        colorscale="Blues",
        colorbar={"title": of},
        hovertemplate="%{y}, %{x}: %{z:.3f}<extra></extra>",
        **options,
    )
    figure = graph_objects.Figure(drawn)
    figure.update_layout(
        template="none",
        height=max(LEAST, CELL * len(rows) + AROUND),
        margin={"l": 10, "r": 10, "t": 20, "b": 10},
        xaxis={"type": "category", "automargin": True, "side": "bottom"},
        # The first row on top, as in a table.
        yaxis={"type": "category", "automargin": True, "autorange": "reversed"},
    )
    return figure


def meaning_heatmap(found: Meaning) -> Figure:
    """Bits that each latent carries of each factor."""
    rows = [f"latent {place}" for place in found.latents]
    return heatmap(found.bits, rows, found.factors, of="bits", largest=None)


def draw_comparison(found: Comparison, path: str) -> None:
    """The similarities of models, and of layers where they were compared, in one file."""
    figures = [(f"{found.summary()}.", heatmap(found.matrix, found.names, found.names, of=found.measure))]
    if found.layers is not None:
        one, other = found.names[:2]
        sentence = f"Layers of {one} (rows) and of {other} (columns): {found.layers.summary()}"
        figures.append(
            (sentence, heatmap(found.layers.matrix, found.layers.rows, found.layers.columns, of=found.layers.measure))
        )
    write_html(figures, path, title="How alike are these models?")
