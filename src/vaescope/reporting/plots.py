"""A plot: a figure, the sentence that it shows, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vaescope.markup import Markup, element, join
from vaescope.tables import csv_text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


@dataclass(frozen=True)
class Plot:
    """What is shown, in one sentence, the figure, and one row for each number or point of it."""

    title: str
    sentence: str
    figure: Figure = field(repr=False)
    rows: Sequence[dict[str, Any]] = field(repr=False)

    def _repr_html_(self) -> str:
        words = element("p", element("strong", f"{self.title}. "), self.sentence)
        return join(words, Markup(self.figure._repr_html_()))

    def csv(self) -> str:
        """The rows as text with commas, the columns in the order they are met."""
        return csv_text(self.rows)
