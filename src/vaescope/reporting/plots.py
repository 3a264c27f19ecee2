"""A plot: a figure, its finding in a sentence, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path

import plotly.graph_objects as go

from vaescope.files import write_text
from vaescope.markup import Markup, element, join
from vaescope.reporting.assets import asset, compressed_text
from vaescope.reporting.paper import COLUMN_INCHES, write_figure
from vaescope.tables import csv_text

# npm: plotly.js-cartesian-dist-min 4.1.1, a quarter of the size of the whole library, which has maps and 3D.
BUNDLE = "plotly-cartesian.min.js"
# A page that shows one plot.
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head><body>{body}</body></html>
"""
LIBRARY = "PACKED_LIBRARY"  # what notebook.js has in the place of the compressed library


@dataclass(frozen=True)
class Plot:
    """A figure with its title, its finding in one sentence, and one row per number or point."""

    title: str
    sentence: str
    figure: go.Figure = field(repr=False)
    rows: Sequence[Mapping[str, object]] = field(repr=False)

    def _repr_html_(self) -> str:
        return join(element("p", element("strong", f"{self.title}. "), self.sentence), notebook_figure(self.figure))

    def save(self, path: str | Path, *, width: float = COLUMN_INCHES, height: float | None = None) -> Path:
        """Write the plot to a file; the same plot gives the same file, byte for byte.

        Args:
            path: The file: .svg, .pdf and .png are drawn by matplotlib, .html can be zoomed, .csv has the numbers.
            width: Width in inches of what matplotlib draws; default: a column of a paper that has two.
            height: Height in inches; default: the proportions of the plot.

        Returns:
            The path of the file.
        """
        path = Path(path)
        if path.suffix == ".csv":
            write_text(path, self.csv())
        elif path.suffix == ".html":
            write_text(path, PAGE.format(title=escape(self.title), body=self._repr_html_()))
        else:
            write_figure(self.figure, path, width, height)
        return path

    def csv(self) -> str:
        """The rows as CSV."""
        return csv_text(self.rows)


def notebook_figure(figure: go.Figure) -> Markup:
    """A figure as one output of a notebook, with the library that draws it: it needs no network and no other output."""
    style = f"height:{int(figure.layout.height)}px;background:#ffffff"
    script = asset("notebook.js").replace(LIBRARY, packed_plotly())
    holder = element("div", class_="vaescope-figure", data_figure=figure.to_json(), style=style)
    return join(holder, Markup(f"<script>{script}</script>"))


@cache
def packed_plotly() -> str:
    """The script of plotly, compressed."""
    return compressed_text(plotly_javascript().encode())


@cache
def plotly_javascript() -> str:
    """The script that defines `Plotly` with plots in two dimensions, without maps; it needs no network."""
    return asset(BUNDLE)
