"""Matrices, histograms and pictures of a study by matplotlib."""

from __future__ import annotations

import base64
import io
import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vaescope.reporting import style
from vaescope.studies.charts import Histograms, Matrix, Pictures
from vaescope.studies.pages.figure_layout import FULL_WIDTH, LETTER, ROUND_STEPS, TITLE, Sheet, laid_out, set_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELL, SMALL_CELL = 0.42, 0.24  # inches; of a cell with its number, of one without
MAX_NUMBERED = 12  # rows and columns up to which cells have their numbers
MAX_LEVEL_LETTERS = 5  # of names of columns, which otherwise stand upright
BAR, AROUND = 0.75, 0.35  # inches; of the colour bar, of what else stands around a matrix
ITEM, MAX_ITEM = 0.36, 0.85  # inches; of one picture at least and at most
MAX_STRIPS = 12  # rows of pictures above which they are in two columns
LETTERS_HIGH = 24  # points; of the names of columns for each inch of their width
ABOVE = 0.22  # inches; of the names of columns
GAP = 0.06  # of a picture's width: the space between two, at least a pixel
PAPER = 255
Strip = tuple[str, np.ndarray]  # the caption, and items x height x width x 3


def draw_matrix(chart: Matrix) -> Figure:
    """Cells from light (0) to dark (the largest value), with their numbers if there are few."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    values = np.asarray(chart.matrix, dtype=np.float64)
    rows, columns = list(map(str, chart.rows)), list(map(str, chart.columns))
    numbered = max(values.shape) <= MAX_NUMBERED
    cell, upright = CELL if numbered else SMALL_CELL, max(map(len, columns)) > MAX_LEVEL_LETTERS
    left = LETTER * max(map(len, rows)) + BAR + AROUND
    below = (LETTER * max(map(len, columns)) if upright else 0.2) + AROUND
    left, below = left + TITLE * bool(chart.axes), below + TITLE * bool(chart.axes)
    size = (left + max(cell * len(columns), 1.5), below + max(cell * len(rows), 1.2))
    largest = chart.largest if chart.largest is not None else float(np.nanmax(values, initial=0.0))
    figure = Figure(size)
    axes = figure.subplots()
    colours = LinearSegmentedColormap.from_list("scale", style.TEXT_SCALE if numbered else style.SCALE)
    cells = np.ma.masked_invalid(values)
    mesh = axes.pcolormesh(cells, cmap=colours, vmin=0, vmax=largest or 1.0, edgecolors="white", linewidth=0.6)
    axes.invert_yaxis()
    axes.set_xticks(np.arange(len(columns)) + 0.5, columns, rotation=90 if upright else 0)
    axes.set_yticks(np.arange(len(rows)) + 0.5, rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if chart.axes:
        axes.set_ylabel(chart.axes[0])
        axes.set_xlabel(chart.axes[1])
    for (row, column), value in np.ndenumerate(values) if numbered else ():
        if np.isfinite(value):
            text = axes.text(column + 0.5, row + 0.5, f"{value:.2f}", ha="center", va="center", fontsize=7.5)
            text.set_in_layout(False)  # it lies within its cell
    bar = figure.colorbar(mesh, ax=axes, label=chart.of, aspect=30)
    bar.outline.set_visible(False)
    return laid_out(figure)


def draw_histograms(chart: Histograms) -> Figure:
    """A panel of counts for each group."""
    from matplotlib.ticker import MaxNLocator

    sheet = Sheet(list(chart.groups), columns=len(chart.groups) if len(chart.groups) in (2, 4) else None)
    for axes, (edges, counts) in zip(sheet.panels, chart.groups.values(), strict=True):
        axes.stairs(counts, edges, fill=True, color=style.CYCLE[0])
        axes.xaxis.set_major_locator(MaxNLocator(3, steps=ROUND_STEPS))
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=ROUND_STEPS))
        set_grid(axes)
    sheet.name_axes(chart.x_title, "count")
    return laid_out(sheet.figure, sheet.rows)


def draw_pictures(chart: Pictures) -> Figure:
    """Rows of pictures, each with its caption at the left; many rows are in two columns."""
    from matplotlib.figure import Figure

    strips = [(caption, _pixels(items)) for caption, items in chart.strips]
    blocks = 1 if len(strips) <= MAX_STRIPS else 2
    in_block = -(-len(strips) // blocks)
    parts = [_parts(strips[start : start + in_block], chart.columns) for start in range(0, len(strips), in_block)]
    named = LETTER * max(len(caption) for caption, _ in strips) + 0.15
    most = max(len(items) for _, items in strips)
    tall, wide = (max(items.shape[place] for _, items in strips) for place in (1, 2))
    gap = max(1, round(GAP * wide))
    tall, wide = tall + gap, wide + gap
    item = min(MAX_ITEM, max(ITEM, 4.6 / most), (FULL_WIDTH / blocks - named) / most)
    line = item * tall / wide  # inches of a row of pictures
    width = blocks * (named + item * most + 0.1)
    height = max(sum(_above(part, chart.columns) + line * len(part) for part in own) for own in parts) + 0.05
    figure = Figure((width, height))
    for block, own in enumerate(parts):
        top = height
        for part in own:
            drawn = line * len(part)
            top -= _above(part, chart.columns) + drawn
            place = (block / blocks + named / width, top / height, item * most / width, drawn / height)
            axes = figure.add_axes(place)
            axes.imshow(_sheet([items for _, items in part], most, tall, wide), interpolation="none", aspect="auto")
            axes.set_yticks([tall * (row + 0.5) for row in range(len(part))], [caption for caption, _ in part])
            names = chart.columns if _is_named(part[0], chart.columns) else ()
            axes.xaxis.tick_top()
            axes.set_xticks([wide * (column + 0.5) for column in range(len(names))], list(names))
            axes.tick_params(length=0)
            axes.tick_params(axis="x", labelsize=min(8, LETTERS_HIGH * item))
            axes.spines[:].set_visible(False)
    return figure


def _parts(strips: Sequence[Strip], columns: Sequence[str]) -> list[list[Strip]]:
    """Rows that follow each other and have, or have not, an item for each of the named columns."""
    return [list(part) for _, part in itertools.groupby(strips, lambda strip: _is_named(strip, columns))]


def _is_named(strip: Strip, columns: Sequence[str]) -> bool:
    return bool(columns) and len(strip[1]) == len(columns)


def _above(part: Sequence[Strip], columns: Sequence[str]) -> float:
    """The space above rows, in inches, for the names of their columns."""
    return ABOVE if _is_named(part[0], columns) else GAP


def with_grey_images(svg: bytes) -> bytes:
    """An SVG whose grey images have one number for each pixel, not four: a third of the size."""
    return re.sub(rb"(data:image/png;base64,\n)([A-Za-z0-9+/=]+)", lambda found: found[1] + _as_grey(found[2]), svg)


def _as_grey(encoded: bytes) -> bytes:
    from PIL import Image

    image = Image.open(io.BytesIO(base64.b64decode(encoded))).convert("RGB")
    red, green, blue = image.split()
    if red.tobytes() != green.tobytes() or red.tobytes() != blue.tobytes():
        return encoded
    written = io.BytesIO()
    red.save(written, "PNG", optimize=True)
    return base64.b64encode(written.getvalue())


def _pixels(items: Any) -> np.ndarray:
    """Items x height x width x 3, in 255 steps."""
    array = np.asarray(items, dtype=np.float64)
    array = array[:, None] if array.ndim == 3 else array
    steps = (array.clip(0, 1) * PAPER).round().astype(np.uint8).transpose(0, 2, 3, 1)
    return np.broadcast_to(steps, (*steps.shape[:3], 3)) if steps.shape[-1] == 1 else steps


def _sheet(strips: Sequence[np.ndarray], most: int, tall: int, wide: int) -> np.ndarray:
    """All pictures on one sheet of white paper, a row for each strip."""
    sheet = np.full((tall * len(strips), wide * most, 3), PAPER, dtype=np.uint8)
    for row, items in enumerate(strips):
        for column, item in enumerate(items):
            top, left = row * tall, column * wide
            sheet[top : top + item.shape[0], left : left + item.shape[1]] = item
    return sheet
