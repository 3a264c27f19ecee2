"""A plot: a figure, a sentence that says what it shows, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import plotly.graph_objects as go

from vaescope.markup import Markup, element, join
from vaescope.tables import csv_text


@dataclass(frozen=True)
class Plot:
    """A figure with its title, its finding in one sentence, and one row per number or point."""

    title: str
    sentence: str
    figure: go.Figure = field(repr=False)
    rows: Sequence[Mapping[str, object]] = field(repr=False)

    def _repr_html_(self) -> str:
        words = element("p", element("strong", f"{self.title}. "), self.sentence)
        return join(words, Markup(self.figure._repr_html_()))

    def csv(self) -> str:
        """The rows as CSV."""
        return csv_text(self.rows)
