"""Heatmaps of matrices, and the plots of similarities drawn with them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float
from torch import nn

from vaescope.codes import Representation
from vaescope.data import DataLike
from vaescope.diagnosis.compare import Comparison
from vaescope.diagnosis.comparison_cards import measure_name
from vaescope.encoding import layer_similarity
from vaescope.regime import rate_by_position
from vaescope.reporting.model_style import model_style
from vaescope.reporting.plots import Plot
from vaescope.reporting.style import BLACK, SCALE, TEXT_SCALE, colour_bar, set_layout, shorten
from vaescope.similarity import SimilarityMap

CELL, MIN_CELL, MAX_HEIGHT, MIN_HEIGHT, MARGINS, LETTER = 34, 8, 900, 320, 140, 8  # pixels
MAX_NAMED = 30  # maximum number of rows or columns with a name each
MAX_NUMBERED = 10  # maximum number of columns with a number in every cell
DECIMALS = 4
MAX_OWN_LAYER_ITEMS = 500  # half of those of a comparison; the time grows with their square


def heatmap(
    matrix: Float[np.ndarray, "rows columns"],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    of: str,
    largest: float | None = 1.0,
    axes: tuple[str, str] = ("", ""),
) -> go.Figure:
    """Draw a matrix with values from 0 (light) to `largest` (dark).

    Args:
        matrix: The values; cells with NaN stay empty.
        rows: The names of the rows, from top to bottom.
        columns: The names of the columns.
        of: The title of the colour bar.
        largest: The value of the darkest colour; None means the largest value of the matrix.
        axes: The titles of the x axis and of the y axis.
    """
    values = np.asarray(matrix, dtype=np.float64).round(DECIMALS)
    darkest = largest if largest is not None else float(np.nanmax(values, initial=0.0))
    figure = go.Figure(
        go.Heatmap(
            z=[[None if np.isnan(value) else value for value in row] for row in values.tolist()],
            x=list(columns),
            y=list(rows),
            zmin=0,
            zmax=darkest or 1.0,
            colorbar=colour_bar(of),
            hovertemplate=f"%{{y}}, %{{x}}: %{{z:.3f}} ({of})<extra></extra>",
            hoverongaps=False,
            **(_numbers(values) if len(columns) <= MAX_NUMBERED else {"colorscale": SCALE}),
        )
    )
    cell = min(CELL, max(MIN_CELL, MAX_HEIGHT // len(rows)))
    below = LETTER * max(len(shorten(name)) for name in columns)
    set_layout(figure, max(MIN_HEIGHT, cell * len(rows) + MARGINS + below), l=10, t=76, b=10)
    # Slanted names would shift the panel, and a standoff would overlap the title with the names.
    upright = {"autotickangles": [0, 90], "title_standoff": None}
    figure.update_xaxes(title_text=axes[0], side="bottom", **upright, **_ticks(columns))
    # The first row at the top, as in a table.
    figure.update_yaxes(title_text=axes[1], autorange="reversed", **_ticks(rows))
    return figure


def similarity_plot(found: Comparison) -> Plot:
    """The similarity of each pair of models."""
    figure = heatmap(found.matrix, found.names, found.names, of=measure_name(found.measure))
    if len(found.names) <= MAX_NAMED:
        marked = [model_style(place).tick(shorten(name)) for place, name in enumerate(found.names)]
        figure.update_xaxes(ticktext=marked)
        figure.update_yaxes(ticktext=marked)
    return Plot("Similarity of codes", f"{found.extremes()}.", figure, found.pairs())


def layer_plots(found: Comparison) -> tuple[Plot, ...]:
    """The similarity of the layers of the first two models; empty if they were not compared."""
    if found.layers is None:
        return ()
    (one, other), layers = found.names[:2], found.layers
    axes = ("", f"layer of {shorten(one)}")
    figure = heatmap(layers.matrix, layers.rows, layers.columns, of=measure_name(layers.measure), axes=axes)
    sentence = f"Layers of {one} (rows) and {other} (columns): {layers.summary()}."
    return (Plot("Similarity of layers", sentence, figure, layers.table()),)


def map_plot(found: SimilarityMap) -> Plot:
    """A similarity map by itself."""
    figure = heatmap(found.matrix, found.rows, found.columns, of=found.measure)
    return Plot("Similarity", f"{found.summary()}.", figure, found.table())


def positions_plot(codes: Representation) -> Plot:
    """A map of the rate of spatial codes: the sum over the channels at each position."""
    rates = rate_by_position(codes).numpy()
    # All dimensions but the last become rows.
    channels = rates.reshape(len(rates), -1, rates.shape[-1])
    total = channels.sum(0)
    rows, columns = ([str(number) for number in range(count)] for count in total.shape)
    figure = heatmap(total, rows, columns, of="nats", largest=None, axes=("column", "row"))
    sentence = (
        f"KL divergence from the prior, summed over {len(rates)} channels: {total.mean():.3g} nats at a position on "
        f"average, from {total.min():.3g} to {total.max():.3g}."
    )
    table = [
        {
            "row": row,
            "column": column,
            "rate": rate,
            **{f"channel_{n}": one[row, column] for n, one in enumerate(channels)},
        }
        for (row, column), rate in np.ndenumerate(total)
    ]
    return Plot("Rate by position", sentence, figure, table)


def own_layers_plot(model: nn.Module, data: DataLike, *, items: int = MAX_OWN_LAYER_ITEMS, seed: int = 0) -> Plot:
    """Pairwise CKA between the layers of one model, on at most `items` items."""
    found = layer_similarity(model, data=data, items=items, seed=seed)
    figure = heatmap(found.matrix, found.rows, found.columns, of="CKA", axes=("", "layer"))
    return Plot("Similarity of layers", _extremes(found), figure, found.table())


def _extremes(found: SimilarityMap) -> str:
    """The most and the least similar pair of layers; constant layers are listed."""
    pairs = np.where(np.eye(len(found.rows), dtype=bool), np.nan, found.matrix)
    constant = f" Constant: {', '.join(found.constant)}." if found.constant else ""
    if np.isnan(pairs).all():
        return f"No two of the {len(found.rows)} layers can be compared.{constant}"
    ends = [np.unravel_index(int(place), pairs.shape) for place in (np.nanargmax(pairs), np.nanargmin(pairs))]
    most, least = (
        f"{found.rows[one]} and {found.rows[other]} ({pairs[one, other]:.3f})"
        for one, other in (sorted(map(int, end)) for end in ends)
    )
    return f"CKA of {len(found.rows)} layers: highest for {most}, lowest for {least}.{constant}"


def _numbers(values: Float[np.ndarray, "rows columns"]) -> dict[str, object]:
    """The options that print each value into its cell."""
    texts = [["" if np.isnan(value) else _short_number(value) for value in row] for row in values.tolist()]
    return {"text": texts, "texttemplate": "%{text}", "textfont": {"color": BLACK}, "colorscale": TEXT_SCALE}


def _short_number(value: float) -> str:
    """Two decimals, without the leading 0, which does not fit on a phone."""
    text = f"{value:.2f}"
    return text.rstrip("0").rstrip(".") if value >= 1 else text.removeprefix("0")


def _ticks(names: Sequence[str]) -> dict[str, object]:
    """An axis with every name, shortened; with many names plotly chooses which to show.

    Ticks are placed by name, because plotly takes a number for the category of that name.
    """
    every = {"tickmode": "array", "tickvals": list(names), "ticktext": [shorten(name) for name in names]}
    return {"type": "category", "showgrid": False, **(every if len(names) <= MAX_NAMED else {})}
