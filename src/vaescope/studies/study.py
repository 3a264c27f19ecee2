"""What a study is: a question from the literature, the runs that answer it, numbers beside the published ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from vaescope.checks import whole_number
from vaescope.data import Dataset, open_dataset
from vaescope.errors import VaescopeError, unknown_name
from vaescope.runs import Run
from vaescope.runs.store import DEFAULT_FOLDER
from vaescope.runs.sweep import Sweep, jobs_of
from vaescope.runs.sweeping import device_of, runs_of, train_jobs
from vaescope.showing import Shown
from vaescope.studies.charts import Chart

QUICK, PAPER = "quick", "paper"
SCALES = (QUICK, PAPER)


@dataclass(frozen=True)
class Scale:
    """How much is trained and where: 'quick' takes seconds on a CPU, 'paper' is as published.

    Attributes:
        seeds: How many, in place of the study's own number.
        runs: The folder that runs are kept in: what another study trained is not trained again.
        by: The engine of sweeps, with its `options`.
    """

    name: str = QUICK
    seeds: int | None = None
    runs: Path = Path(DEFAULT_FOLDER)
    device: str | None = None
    by: str = "local"
    options: Mapping[str, Any] = field(default_factory=dict)
    progress: bool | None = None

    def __post_init__(self) -> None:
        if self.name not in SCALES:
            raise unknown_name("scale", self.name, SCALES)
        if self.seeds is not None:
            whole_number("seeds", self.seeds, 1)

    def pick(self, quick: Any, paper: Any) -> Any:
        """The one for this scale."""
        return quick if self.name == QUICK else paper

    def seed_list(self, quick: int, paper: int) -> list[int]:
        """The seeds to train: as many as were asked for, or the study's own number at this scale."""
        return list(range(self.seeds or self.pick(quick, paper)))

    def trained(self, sweep: Sweep) -> list[Run]:
        """The runs of a sweep in the order of its grid, those that are missing trained and measured first."""
        device = device_of(self.device)
        jobs = jobs_of(sweep, device)
        train_jobs(jobs, Path(self.runs), self.by, device, self.progress, **self.options)
        return [run for run, _ in runs_of(jobs, Path(self.runs))]


@dataclass(frozen=True)
class Cell:
    """One number of a table: what it is of, its mean over seeds, their standard deviation, and how many they are.

    A cell without a value says why in `note`.
    """

    of: Mapping[str, Any]
    value: float | None
    sd: float | None = None
    count: int = 1
    note: str = ""

    @classmethod
    def over(cls, of: Mapping[str, Any], values: Sequence[float]) -> Cell:
        """The mean of the values of several seeds; those that are not finite make the cell empty."""
        if not values or not all(math.isfinite(value) for value in values):
            return cls(of, None, None, len(values), "not finite" if values else "nothing was measured")
        return cls(of, fmean(values), stdev(values) if len(values) > 1 else None, len(values))


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
        work: Trains what is missing, and measures.
    """

    name: str
    source: str
    question: str
    left_open: str
    work: Callable[[Scale], Findings]


@dataclass(frozen=True)
class Reproduction(Shown):
    """A study at one scale: our numbers beside the published ones."""

    study: Study
    scale: str
    findings: Findings
    published: tuple[Cell, ...]

    def rows(self) -> list[dict[str, Any]]:
        """One row for each number: ours, the published one, and how many published standard deviations lie between.

        Numbers of the one side stand alone where the other has none. Quick settings are chosen to show a behaviour in
        seconds: their numbers are not the published ones' kind, and no distance is given.
        """
        known = {_key(cell.of): cell for cell in self.published}
        ours = {_key(cell.of): cell for cell in self.findings.cells}
        columns = list(dict.fromkeys(name for cell in (*self.findings.cells, *self.published) for name in cell.of))
        rows = []
        for key in dict.fromkeys([*ours, *known]):
            mine, theirs = ours.get(key), known.get(key)
            of = (mine or theirs or Cell({}, None)).of
            row = {**{name: of.get(name) for name in columns}, **_beside(mine, theirs)}
            rows.append(row if self.scale == PAPER else {**row, "difference_sd": None})
        return rows

    def summary(self) -> str:
        """How many numbers lie within two published standard deviations."""
        known = [row for row in self.rows() if row["difference_sd"] is not None]
        both = [row for row in self.rows() if row["ours"] is not None and row["published"] is not None]
        name = f"{self.study.source}, {self.scale}: {len(self.findings.cells)} numbers"
        if not both:
            return f"{name}; none is published to compare with"
        if self.scale == QUICK:
            return f"{name}; the published ones beside them are of other settings: look at the behaviour"
        near = sum(abs(row["difference_sd"]) <= 2 for row in known)
        spread = f", {near} of the {len(known)} published with a spread within two standard deviations" if known else ""
        return f"{name}, {len(both)} of them published{spread}"

    def plain(self) -> dict[str, Any]:
        """All of it as tables for machines."""
        return {
            "study": self.study.name,
            "source": self.study.source,
            "question": self.study.question,
            "left_open": self.study.left_open,
            "scale": self.scale,
            "summary": self.summary(),
            "rows": self.rows(),
            "notes": list(self.findings.notes),
            "charts": [chart.plain() for chart in self.findings.charts],
        }


def open_or_note(name: str, notes: list[str], **options: Any) -> Dataset | None:
    """A data set whose files may be absent: None, and a note that says what is missing."""
    try:
        return open_dataset(name, **options)
    except VaescopeError as error:
        notes.append(f"data not found: {name}. {error}")
        return None


def renamed(cell: Cell, **more: Any) -> Cell:
    """The cell with more said about what it is of."""
    return replace(cell, of={**cell.of, **more})


def _key(of: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(value)) for name, value in of.items()))


def _beside(mine: Cell | None, theirs: Cell | None) -> dict[str, Any]:
    ours, published = None if mine is None else mine.value, None if theirs is None else theirs.value
    spread = None if theirs is None else theirs.sd
    difference = None if ours is None or published is None or not spread else (ours - published) / spread
    return {
        "ours": ours,
        "sd": None if mine is None else mine.sd,
        "seeds": None if mine is None else mine.count,
        "published": published,
        "published_sd": spread,
        "difference_sd": difference,
        "note": " ".join(cell.note for cell in (mine, theirs) if cell is not None and cell.note),
    }
