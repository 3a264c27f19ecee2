"""What a study is: a question from the literature, the runs that answer it, numbers beside the published ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from vaescope.checks import finite_number, whole_number
from vaescope.data import DATASETS, Dataset, open_dataset
from vaescope.errors import ConfigurationError, RunError, VaescopeError, unknown_name
from vaescope.notebook import Shown
from vaescope.runs import Run
from vaescope.runs.options import choose_device
from vaescope.runs.record import COMPLETE, FAILURE_FILE
from vaescope.runs.store import DEFAULT_FOLDER
from vaescope.studies.charts import Chart
from vaescope.sweeps.jobs import make_jobs
from vaescope.sweeps.run import open_runs, train_jobs
from vaescope.sweeps.specification import Sweep, data_name

QUICK, PAPER = "quick", "paper"
SCALES = (QUICK, PAPER)


@dataclass(frozen=True)
class Scale:
    """How much is trained and where: 'quick' takes seconds on a CPU, 'paper' is as published.

    Attributes:
        seeds: How many, in place of the study's own number.
        share: How much of the study's training is done, 1 for all; or such shares by the name of the data, all of it
            on data that are not named. Searches that end by themselves and schedules of objectives are not cut.
        data: The only data sets to work on, where a study has several; all if empty.
        runs: The folder that runs are kept in: what another study trained is not trained again.
        by: The engine of sweeps, with its `options`.
    """

    name: str = QUICK
    seeds: int | None = None
    share: float | Mapping[str, float] = 1.0
    data: tuple[str, ...] = ()
    runs: Path = Path(DEFAULT_FOLDER)
    device: str | None = None
    by: str = "local"
    options: Mapping[str, Any] = field(default_factory=dict)
    progress: bool | None = None
    _cuts: dict[str, float] = field(default_factory=dict, init=False, repr=False, compare=False)
    _about: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.name not in SCALES:
            raise unknown_name("scale", self.name, SCALES)
        if self.seeds is not None:
            whole_number("seeds", self.seeds, 1)
        if isinstance(self.data, str):
            raise ConfigurationError(f"data must be a list of names, got {self.data!r}. Write [{self.data!r}].")
        by_name = self.share if isinstance(self.share, Mapping) else None
        for name in (*(by_name or ()), *self.data):
            if name not in DATASETS:
                raise unknown_name("data", name, DATASETS)
        for given in [self.share] if by_name is None else by_name.values():
            share = finite_number("share", given, above=0)
            if share > 1:
                raise ConfigurationError(f"share must be at most 1, all of the study's training, got {share:g}.")

    def pick(self, quick: Any, paper: Any) -> Any:
        """The one for this scale."""
        return quick if self.name == QUICK else paper

    def seed_list(self, quick: int, paper: int) -> list[int]:
        """The seeds to train: as many as were asked for, or the study's own number at this scale."""
        return list(range(self.seeds or self.pick(quick, paper)))

    def open(self, name: str, notes: list[str], **options: Any) -> Dataset | None:
        """A data set; None, with a note that says why, where its files are absent or it was not asked for."""
        self._about.add(name)
        if self.data and name not in self.data:
            notes.append(f"left out: {name}, of the data only {', '.join(self.data)} being asked for.")
            return None
        try:
            return open_dataset(name, **options)
        except VaescopeError as error:
            notes.append(f"data not found: {name}. {error}")
            return None

    def trained(self, sweep: Sweep, *, some: bool = False) -> list[Run]:
        """The runs of a sweep in the order of its grid, those that are missing trained and measured first.

        All must have been trained to the end, unless `some` will do: then ask for those that are `complete`.
        """
        name = data_name(sweep.data)
        if self.data and name not in self.data:
            raise ConfigurationError(
                f"data must name {name}, which this study is trained on, got {', '.join(self.data)}. Name it, or leave "
                "data out."
            )
        device = choose_device(self.device)
        jobs = make_jobs(self.shortened(sweep), device)
        train_jobs(jobs, Path(self.runs), self.by, device, self.progress, **self.options)
        runs = [run for run, _ in open_runs(jobs, Path(self.runs))]
        failed = [run.id for run in runs if run.status != COMPLETE]
        if failed and not some:
            raise RunError(
                f"a study needs all of its runs, {len(failed)} of {len(runs)} diverged: see "
                f"{Path(self.runs) / failed[0] / FAILURE_FILE}. Delete their folders to try again, or ask for fewer "
                "seeds or another device."
            )
        return runs

    def shortened(self, sweep: Sweep) -> Sweep:
        """The sweep with the share of its steps or epochs that is to be trained."""
        return replace(sweep, settings=self.cut(sweep.settings, data_name(sweep.data)))

    def cut(self, settings: Mapping[str, Any], data: str) -> dict[str, Any]:
        """Settings with the share of their steps or epochs that is to be trained on some data, which is remembered."""
        self._about.add(data)
        share = self.share.get(data, 1.0) if isinstance(self.share, Mapping) else self.share
        lengths = {name: share * settings[name] for name in ("steps", "epochs") if settings.get(name) is not None}
        if share == 1 or not lengths:
            return dict(settings)
        self._cuts[data] = share
        return {**settings, **{name: max(1, round(to)) if name == "steps" else to for name, to in lengths.items()}}

    def check_names(self, study: str) -> list[str]:
        """After the study's work, notes on shares of data that it is not about."""
        if self.data and not self._about:
            raise ConfigurationError(f"{study} is about no data, got {', '.join(self.data)}. Leave data out.")
        shares = self.share if isinstance(self.share, Mapping) else ()
        return [f"share of {name}: this study is not about it." for name in shares if name not in self._about]

    def command(self, study: str) -> str:
        """What a user types for a study at this scale."""
        words = ["vaescope", "reproduce", study, "--scale", self.name]
        words += [] if self.seeds is None else ["--seeds", str(self.seeds)]
        shares = self.share if isinstance(self.share, Mapping) else {"": self.share}
        for name, share in shares.items():
            words += ["--share", f"{name}={share!r}" if name else repr(share)] if share < 1 else []
        for name in self.data:
            words += ["--data", name]
        return " ".join(words)

    def words(self) -> str:
        """The scale, and what was cut of its training."""
        cuts = ", ".join(f"{share:.3g} on {name}" for name, share in self._cuts.items())
        return f"{self.name} (of the training {cuts})" if cuts else self.name


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
    def over(cls, of: Mapping[str, Any], values: Sequence[float], diverged: int = 0) -> Cell:
        """The mean of the values of several seeds, `diverged` others; those that are not finite make the cell empty."""
        note = f"{diverged} of {len(values) + diverged} runs diverged" if diverged else ""
        if not values or not all(math.isfinite(value) for value in values):
            return cls(of, None, None, len(values), "not finite" if values else note or "nothing was measured")
        return cls(of, fmean(values), stdev(values) if len(values) > 1 else None, len(values), note)


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
        exact: Whether nothing is trained, so that the numbers are the same at every scale.
    """

    name: str
    source: str
    question: str
    left_open: str
    work: Callable[[Scale], Findings]
    exact: bool = False


@dataclass(frozen=True)
class Reproduction(Shown):
    """A study at one scale: our numbers beside the published ones."""

    study: Study
    scale: Scale
    findings: Findings
    published: tuple[Cell, ...]

    @property
    def comparable(self) -> bool:
        """Whether our numbers are of the published ones' kind: those of quick settings are not."""
        return self.study.exact or self.scale.name == PAPER

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
            rows.append(row if self.comparable else {**row, "difference_sd": None})
        return rows

    def summary(self) -> str:
        """How many numbers there are, and how many lie within two published standard deviations."""
        return f"{self.study.source}, {self.scale.words()}: {verdict(self.rows(), self.comparable)}"

    def plain(self) -> dict[str, Any]:
        """All of it as tables for machines."""
        return {
            "study": self.study.name,
            "source": self.study.source,
            "question": self.study.question,
            "left_open": self.study.left_open,
            "scale": self.scale.name,
            "made_by": [self.scale.command(self.study.name)],
            "summary": self.summary(),
            "rows": self.rows(),
            "notes": list(self.findings.notes),
            "charts": [chart.plain() for chart in self.findings.charts],
        }


def verdict(rows: Sequence[Mapping[str, Any]], comparable: bool = True) -> str:
    """How many numbers the rows of a study hold, and how many of them are as published."""
    ours = [row for row in rows if row["ours"] is not None]
    published = [row for row in rows if row["published"] is not None]
    both = [row for row in ours if row["published"] is not None]
    numbers = f"{len(ours)} number{'' if len(ours) == 1 else 's'}"
    if not published:
        return f"{numbers}; none is published to compare with"
    if not both:
        return f"{numbers}; those published, {len(published)}, are of other data or settings"
    if not comparable:
        return f"{numbers}; the published ones beside them are of other settings: look at the behaviour"
    known = [row for row in rows if row["difference_sd"] is not None]
    near = sum(abs(row["difference_sd"]) <= 2 for row in known)
    spread = f", {near} of the {len(known)} published with a spread within two standard deviations" if known else ""
    return f"{numbers}, {len(both)} of them published{spread}"


def complete(runs: Sequence[Run]) -> list[Run]:
    """Those that did not diverge."""
    return [run for run in runs if run.status == COMPLETE]


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
        "note": "; ".join(cell.note for cell in (mine, theirs) if cell is not None and cell.note),
    }
