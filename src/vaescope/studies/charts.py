"""Figures as descriptions: what is to be drawn, which the report draws.

A sentence says what is drawn, or what was found from the numbers; a claim of the source begins with "Source:".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from vaescope.checks import without_infinities


@dataclass(frozen=True)
class Lines:
    """A line for each value of `by` through (x, y), with bars of the standard deviation where rows have one.

    `kind` is 'lines', 'points' or 'bars'; `panel` names a column with a panel for each of its values.
    """

    title: str
    sentence: str
    rows: Sequence[Mapping[str, Any]]
    x: str
    y: str
    by: str | None = None
    panel: str | None = None
    sd: str | None = "sd"
    kind: str = "lines"
    x_title: str = ""
    y_title: str = ""
    log_x: bool = False
    log_y: bool = False

    def plain(self) -> dict[str, Any]:
        """For machines."""
        return {"chart": self.kind, "title": self.title, "sentence": self.sentence, "rows": _rows(self.rows)}


@dataclass(frozen=True)
class Matrix:
    """One cell for each row and column, light for 0 and dark for `largest`."""

    title: str
    sentence: str
    matrix: np.ndarray
    rows: Sequence[str]
    columns: Sequence[str]
    of: str
    largest: float | None = 1.0

    def plain(self) -> dict[str, Any]:
        """For machines."""
        table = {"rows": list(self.rows), "columns": list(self.columns), "matrix": np.asarray(self.matrix).tolist()}
        return without_infinities({"chart": "matrix", "title": self.title, "sentence": self.sentence, **table})


@dataclass(frozen=True)
class Histograms:
    """Counts of groups of numbers, a panel each: name -> (edges of the bins, counts)."""

    title: str
    sentence: str
    groups: Mapping[str, tuple[Sequence[float], Sequence[float]]]
    x_title: str = ""

    def plain(self) -> dict[str, Any]:
        """For machines."""
        groups = {
            name: {"edges": list(map(float, edges)), "counts": list(map(float, counts))}
            for name, (edges, counts) in self.groups.items()
        }
        return {"chart": "histograms", "title": self.title, "sentence": self.sentence, "groups": groups}


@dataclass(frozen=True)
class Pictures:
    """Rows of items, each with a caption; items x shape, numbers in [0, 1] for images."""

    title: str
    sentence: str
    strips: Sequence[tuple[str, Tensor]] = field(repr=False)

    def plain(self) -> dict[str, Any]:
        """For machines, who do not look at pictures."""
        return {
            "chart": "pictures",
            "title": self.title,
            "sentence": self.sentence,
            "captions": [caption for caption, _ in self.strips],
        }


Chart = Lines | Matrix | Histograms | Pictures


def _rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return without_infinities([dict(row) for row in rows])
