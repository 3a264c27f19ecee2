"""How far a sweep has trained is read from the histories of runs and of ensembles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vaescope.progress import ProgressReport
from vaescope.runs import FitOptions
from vaescope.runs.journal import Journal
from vaescope.runs.measurements import MeasurementSpec
from vaescope.sweeps import watching
from vaescope.sweeps.jobs import Job
from vaescope.sweeps.watching import shown_progress, trained_steps
from vaescope.training import Member


def job(number: int, *ids: str, steps: int = 100) -> Job:
    members = tuple(Member(2, seed=seed) for seed in range(len(ids)))
    return Job(number, "digits", FitOptions(), members, ids, tuple(range(len(ids))), MeasurementSpec(), steps)


def trained(folder: Path, steps: int) -> None:
    folder.mkdir()
    Journal(folder).append([{"step": step, "split": "train"} for step in (1, steps)])


def test_steps_are_those_of_runs_and_of_members_of_ensembles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained(tmp_path / "alone", 30)
    trained(tmp_path / "together", 40)
    monkeypatch.setattr(watching, "ensembles_in", lambda runs: [(tmp_path / "together", ["b", "c"])])
    jobs = [job(0, "alone"), job(1, "b", "c"), job(2, "later", "after")]
    assert trained_steps(jobs, tmp_path) == 30 + 40 + 40
    assert trained_steps([], tmp_path) == 0


def test_progress_moves_while_a_job_trains_and_counts_finished_jobs_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, str]] = []

    @contextmanager
    def bar(title: str, total: int, show: bool | None, *, unit: str) -> Iterator[ProgressReport]:
        assert (title, total, unit) == ("sweep", 300, "steps")
        yield lambda done, words="", total=None: told.append((done, words))

    monkeypatch.setattr(watching, "progress_bar", bar)
    monkeypatch.setattr(watching, "WATCH_SECONDS", 0.01)
    jobs, done = [job(0, "one", "two"), job(1, "three")], {0}
    with shown_progress(jobs, done, tmp_path, None):
        trained(tmp_path / "three", 60)
        while told[-1] != (260, "2 of 3 runs done"):
            pass
        done.add(1)
        while told[-1] != (300, "3 of 3 runs done"):
            pass
    assert told[0] == (200, "2 of 3 runs done")
