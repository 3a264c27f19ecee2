"""What a study is: a question from the literature, our numbers, and the published ones to compare them with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev

from vaescope.notebook import NotebookResult
from vaescope.studies.charts import Chart
from vaescope.studies.claims import Judged, StudyClaim, tally
from vaescope.studies.context import StudyContext
from vaescope.studies.kept import how_to_test
from vaescope.studies.numbers import standard_errors_apart
from vaescope.studies.results import JsonTable
from vaescope.studies.settings import PAPER, StudySettings
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
class Shared:
    """Settings that the source left open for several of its tables and figures: a title, and what was chosen here."""

    title: str
    text: str


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
        claims: What the source says, each with the rule that tests it.
        shared: What the source left open for this and other studies, and what was chosen.
    """

    name: str
    source: str
    question: str
    left_open: str
    work: Callable[[StudyContext], Findings]
    exact: bool = False
    claims: tuple[StudyClaim, ...] = ()
    shared: tuple[Shared, ...] = ()

    def judge(self, rows: Sequence[JsonTable], scale: str) -> tuple[Judged, ...]:
        """The verdict on each claim from the rows of the study; numbers of quick settings test none."""
        if self.exact or scale == PAPER:
            return tuple(claim.judge(rows) for claim in self.claims)
        return tuple(
            claim.untested(f"Only a quick stand-in was run. {how_to_test(self.name)}") for claim in self.claims
        )


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
        """One row for each number: ours, the published one, and how many standard errors lie between.

        The standard error is that of the difference, from the standard deviations and seeds of both sides. Numbers of
        the one side stand alone where the other has none. Quick settings are chosen to show a behaviour in seconds:
        their numbers are not the published ones' kind, and no distance is given.
        """
        known = {cell.key: cell for cell in self.published}
        ours = {cell.key: cell for cell in self.findings.cells}
        columns = columns_of([cell.of for cell in (*self.findings.cells, *self.published)])
        empty, rows = Cell({}, None, count=0), []
        for key in {**ours, **known}:
            mine, theirs = ours.get(key, empty), known.get(key, empty)
            row: JsonTable = {
                **{name: (mine.of or theirs.of).get(name) for name in columns},
                "ours": mine.value,
                "sd": mine.sd,
                "seeds": mine.count if key in ours else None,
                "published": theirs.value,
                "published_sd": theirs.sd,
                "published_seeds": theirs.count or None,
            }
            row["difference_se"] = standard_errors_apart(row) if self.comparable else None
            row["note"] = "; ".join(one.note for one in (mine, theirs) if one.note)
            rows.append(row)
        return rows

    def judged(self) -> tuple[Judged, ...]:
        """The verdict on each claim of the source."""
        return self.study.judge(self.rows(), self.settings.scale)

    def summary(self) -> str:
        """How many claims of the source hold."""
        return summary_of(self.study, self.scale_words or self.settings.scale, self.judged())

    def plain(self) -> JsonTable:
        """All of it as tables for machines."""
        return {
            "study": self.study.name,
            "source": self.study.source,
            "question": self.study.question,
            "left_open": self.study.left_open,
            "shared": [asdict(one) for one in self.study.shared],
            "scale": self.settings.scale,
            "scale_words": self.scale_words or self.settings.scale,
            "made_by": [self.settings.command(self.study.name)],
            "summary": self.summary(),
            "claims": [one.plain() for one in self.judged()],
            "rows": self.rows(),
            "notes": list(self.findings.notes),
            "charts": [chart.plain() for chart in self.findings.charts],
        }


def summary_of(study: Study, scale_words: str, judged: Sequence[Judged]) -> str:
    """The source, the scale, and how many claims hold."""
    return f"{study.source}, {scale_words}: {tally(one.verdict for one in judged)}"
