"""What a study is: a question from the literature, our numbers, and the published ones to compare them with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from vaescope.notebook import NotebookResult
from vaescope.studies.charts import Chart
from vaescope.studies.context import PAPER, StudyContext, StudySettings
from vaescope.studies.results import JsonTable
from vaescope.tables import columns_of


@dataclass(frozen=True)
class Cell:
    """One number of a table: what it is of, its mean over seeds, their standard deviation, and how many they are.

    A cell without a value says why in `note`.
    """

    of: Mapping[str, object]
    value: float | None
    sd: float | None = None
    count: int = 1
    note: str = ""

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """What it is of, by which a number is found among the published ones."""
        return tuple(sorted((name, str(value)) for name, value in self.of.items()))

    @classmethod
    def over(cls, of: Mapping[str, object], values: Sequence[float], diverged: int = 0) -> Cell:
        """The mean of the values of several seeds, `diverged` others; those that are not finite make the cell empty."""
        note = f"{diverged} of {len(values) + diverged} runs diverged" if diverged else ""
        if not values or not all(math.isfinite(value) for value in values):
            return cls(of, None, None, len(values), "not finite" if values else note or "nothing was measured")
        return cls(of, fmean(values), stdev(values) if len(values) > 1 else None, len(values), note)


def measure_cells(
    of: Mapping[str, object], values: Sequence[Mapping[str, float]], names: Iterable[str] = ()
) -> list[Cell]:
    """A cell for each measure (default: all) over seeds; `values` are the measures of each seed by name."""
    return [Cell.over({**of, "measure": name}, [one[name] for one in values]) for name in names or values[0]]


def cell_rows(cells: Iterable[Cell], value: str = "value") -> list[JsonTable]:
    """Cells as rows of a chart."""
    return [{**cell.of, value: cell.value, "sd": cell.sd} for cell in cells]


@dataclass(frozen=True)
class Findings:
    """What came out: the numbers, the charts, and what could not be had, with the reason."""

    cells: tuple[Cell, ...]
    charts: tuple[Chart, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study:
    """A table or figure of one of the documents.

    Attributes:
        name: The document and what it is of: 'rolinek-table2'.
        source: Where it stands: 'Rolinek et al., Table 2'.
        question: What was asked, in one sentence.
        left_open: What the source does not say, and what was chosen here.
        work: Asks for what must be measured, then turns the values into findings. It trains nothing itself, and
            is called again after values that it found missing were measured.
        exact: Whether nothing is trained, so that the numbers are the same at every scale.
    """

    name: str
    source: str
    question: str
    left_open: str
    work: Callable[[StudyContext], Findings]
    exact: bool = False


@dataclass(frozen=True)
class Reproduction(NotebookResult):
    """A study at one scale: our numbers and the published ones; `scale_words` say what was cut of the training."""

    study: Study
    settings: StudySettings
    findings: Findings
    published: tuple[Cell, ...]
    scale_words: str = ""

    @property
    def comparable(self) -> bool:
        """Whether our numbers are of the published ones' kind: those of quick settings are not."""
        return self.study.exact or self.settings.scale == PAPER

    def rows(self) -> list[JsonTable]:
        """One row for each number: ours, the published one, and how many published standard deviations lie between.

        Numbers of the one side stand alone where the other has none. Quick settings are chosen to show a behaviour in
        seconds: their numbers are not the published ones' kind, and no distance is given.
        """
        known = {cell.key: cell for cell in self.published}
        ours = {cell.key: cell for cell in self.findings.cells}
        columns = columns_of([cell.of for cell in (*self.findings.cells, *self.published)])
        empty, rows = Cell({}, None, count=0), []
        for key in {**ours, **known}:
            mine, theirs, difference = ours.get(key, empty), known.get(key, empty), None
            if self.comparable and mine.value is not None and theirs.value is not None and theirs.sd:
                difference = (mine.value - theirs.value) / theirs.sd
            rows.append(
                {
                    **{name: (mine.of or theirs.of).get(name) for name in columns},
                    "ours": mine.value,
                    "sd": mine.sd,
                    "seeds": mine.count if key in ours else None,
                    "published": theirs.value,
                    "published_sd": theirs.sd,
                    "difference_sd": difference,
                    "note": "; ".join(one.note for one in (mine, theirs) if one.note),
                }
            )
        return rows

    def summary(self) -> str:
        """How many numbers there are, and how many lie within two published standard deviations."""
        scale = self.scale_words or self.settings.scale
        return f"{self.study.source}, {scale}: {verdict(self.rows(), self.comparable)}"

    def plain(self) -> JsonTable:
        """All of it as tables for machines."""
        return {
            "study": self.study.name,
            "source": self.study.source,
            "question": self.study.question,
            "left_open": self.study.left_open,
            "scale": self.settings.scale,
            "made_by": [self.settings.command(self.study.name)],
            "summary": self.summary(),
            "rows": self.rows(),
            "notes": list(self.findings.notes),
            "charts": [chart.plain() for chart in self.findings.charts],
        }


def verdict(rows: Sequence[JsonTable], comparable: bool = True) -> str:
    """How many numbers the rows of a study hold, and how many of them are as published."""
    ours = [row for row in rows if row["ours"] is not None]
    published = [row for row in rows if row["published"] is not None]
    both = [row for row in ours if row["published"] is not None]
    numbers = f"{len(ours)} number{'' if len(ours) == 1 else 's'}"
    if not published:
        return f"{numbers}; none is published to compare with"
    if not both:
        values = "published value uses" if len(published) == 1 else f"{len(published)} published values use"
        return f"{numbers}; the {values} other data or settings, so they cannot be compared"
    if not comparable:
        return f"{numbers}; the published values use other settings and are not comparable; compare the behaviour"
    known = [row for row in rows if row["difference_sd"] is not None]
    near = sum(abs(row["difference_sd"]) <= 2 for row in known)
    spread = f", {near} of the {len(known)} published with a spread within two standard deviations" if known else ""
    return f"{numbers}, {len(both)} of them published{spread}"
