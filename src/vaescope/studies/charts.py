"""Figures as descriptions: what is to be drawn, which the report draws.

A sentence says what is drawn, or what was found from the numbers; a claim of the source begins with "Source:".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from torch import Tensor

from vaescope.checks import without_infinities
from vaescope.errors import DataError
from vaescope.studies.measurements import images, pictures
from vaescope.studies.results import JsonTable

OPTIONAL = {"marks", "columns", "axes"}  # fields that are not kept where they are empty


@dataclass(frozen=True)
class Lines:
    """A line for each value of `by` through (x, y), with bars of the standard deviation where rows have one.

    `kind` is 'lines', 'points' or 'bars'; `panel` names a column with a panel for each of its values. `marks` are
    upright lines: rows with a place on x, a name under `mark`, and the panel and group they belong to.
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
    marks: Sequence[Mapping[str, Any]] = ()

    def plain(self) -> JsonTable:
        """For machines."""
        rows, marks = (without_infinities([dict(row) for row in table]) for table in (self.rows, self.marks))
        return {"chart": "lines", **_fields(self), "rows": rows, **({"marks": marks} if marks else {})}


@dataclass(frozen=True)
class Matrix:
    """One cell for each row and column, light for 0 and dark for `largest`.

    `axes` say what the rows and what the columns are, if their names do not.
    """

    title: str
    sentence: str
    matrix: np.ndarray
    rows: Sequence[str]
    columns: Sequence[str]
    of: str
    largest: float | None = 1.0
    axes: Sequence[str] = ()

    def plain(self) -> JsonTable:
        """For machines."""
        table = {"rows": list(self.rows), "columns": list(self.columns), "matrix": np.asarray(self.matrix).tolist()}
        axes = {"axes": list(self.axes)} if self.axes else {}
        written: JsonTable = without_infinities({"chart": "matrix", **_fields(self), **table, **axes})
        return written


@dataclass(frozen=True)
class Histograms:
    """Counts of groups of numbers, a panel each: name -> (edges of the bins, counts)."""

    title: str
    sentence: str
    groups: Mapping[str, tuple[Sequence[float], Sequence[float]]]
    x_title: str = ""

    def plain(self) -> JsonTable:
        """For machines."""
        groups = {
            name: {"edges": list(map(float, edges)), "counts": list(map(float, counts))}
            for name, (edges, counts) in self.groups.items()
        }
        return {"chart": "histograms", **_fields(self), "groups": groups}


@dataclass(frozen=True)
class Pictures:
    """Rows of items, each with a caption; items x shape, numbers in [0, 1] for images.

    `columns` are names of the items, which stand above the rows that have as many.
    """

    title: str
    sentence: str
    strips: Sequence[tuple[str, Tensor]] = field(repr=False)
    columns: Sequence[str] = ()

    def plain(self) -> JsonTable:
        """For machines; the items as bytes, in 255 steps from black to white."""
        strips = [{"caption": caption, **pictures(items)} for caption, items in self.strips]
        names = {"columns": list(self.columns)} if self.columns else {}
        return {"chart": "pictures", "title": self.title, "sentence": self.sentence, "strips": strips, **names}


Chart = Lines | Matrix | Histograms | Pictures


def chart_of(table: JsonTable) -> Chart:
    """The chart that `plain` wrote; infinities are gone from it, and pictures have 255 steps."""
    own, kind = {name: value for name, value in table.items() if name != "chart"}, table.get("chart")
    kinds = {"lines": Lines, "matrix": Matrix, "histograms": Histograms, "pictures": Pictures}
    known = {one.name for one in fields(kinds[kind])} if kind in kinds else set()
    if set(own) | (OPTIONAL & known) != known:
        raise DataError(
            f"a chart must be of a known kind, with {', '.join(sorted(known)) or 'its fields'}; got {kind!r} with "
            f"{', '.join(sorted(own))}. Make the study again."
        )
    if kind == "lines":
        return Lines(**{**own, "marks": tuple(own.get("marks", ()))})
    if kind == "matrix":
        axes = tuple(own.get("axes", ()))
        return Matrix(**{**own, "matrix": np.array(own["matrix"], dtype=np.float64), "axes": axes})
    if kind == "histograms":
        groups = {name: (group["edges"], group["counts"]) for name, group in own["groups"].items()}
        return Histograms(**{**own, "groups": groups})
    own["columns"] = tuple(own.get("columns", ()))
    return Pictures(**{**own, "strips": [(strip["caption"], images(strip)) for strip in own["strips"]]})


def _fields(chart: Lines | Matrix | Histograms) -> JsonTable:
    """Words, names and switches; not the numbers."""
    return {one.name: value for one in fields(chart) if isinstance(value := getattr(chart, one.name), _PLAIN)}


_PLAIN = str | bool | float | int | None
