"""Rows of runs: kept with finished ones, computed for the others, also while another process writes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vaescope
from vaescope.errors import NonFiniteError, RunError
from vaescope.objectives import Beta, BetaTC
from vaescope.objectives.objective import SCHEDULES, strengths_in_use
from vaescope.runs import FitOptions, Run, Store, fit, fit_many, rows, summary
from vaescope.runs.record import RunRecord
from vaescope.runs.rows import read_row, read_rows, summary_row
from vaescope.runs.sealed import sealed
from vaescope.training import Member

DATA = np.random.default_rng(0).normal(size=(40, 5))
SETTINGS: dict[str, Any] = {
    "net": {"name": "mlp", "encoder_widths": [6], "decoder_widths": [6]},
    "steps": 4,
    "batch": 8,
    "log_every": 2,
    "evaluate_every": 4,
    "device": "cpu",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    members = [Member(1), Member(2, Beta(4.0, warm_up=10)), Member(3, seed=7)]
    fit_many(DATA, members, FitOptions(runs=folder, **SETTINGS))
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "runs"))


def rows_in(folder: Path) -> list[dict[str, Any]]:
    """The rows of a folder in which no run is bad."""
    found = read_rows(folder)
    assert found.problems == {}
    return list(found.rows.values())


def problem_in(folder: Path) -> str:
    """What is wrong with the one bad run; the others are listed."""
    found = read_rows(folder)
    assert len(found.rows) == 2
    ((path, problem),) = found.problems.items()
    assert path == first(folder)
    return str(problem)


def write_sealed(file: Path, table: dict[str, Any]) -> None:
    file.write_text(json.dumps(sealed({name: value for name, value in table.items() if name != "sha256"})))


def as_of_0_1(path: Path) -> None:
    """The record of a run as version 0.1 wrote it, without any checksum; the kept row stays newer."""
    table = {**RunRecord.read(path / "run.json").table(), "provenance": {"version": 0}}
    (path / "run.json").write_text(json.dumps(table))


def first(folder: Path) -> Path:
    return min(file.parent for file in folder.glob("*/run.json"))


def make_older(file: Path, than: Path) -> None:
    times = than.stat()
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns - 1))


def whole(run: Run) -> dict[str, Any]:
    """The row of a run with every setting."""
    return summary_row(run.record, run.history)


def mark_kept(path: Path) -> None:
    """Give the kept row a value that no computed row has."""
    file = path / "summary.json"
    content = json.loads(file.read_text())
    write_sealed(file, {**content, "row": {**content["row"], "kept": 1}})


def test_a_finished_run_keeps_its_row(folder: Path) -> None:
    for run in Store(folder).runs():
        assert json.loads((run.path / "summary.json").read_text())["row"] == whole(run) == read_row(run.path)


def test_rows_are_those_of_all_runs_by_id(folder: Path) -> None:
    assert rows_in(folder) == [summary(run) for run in Store(folder).runs()]
    for file in folder.glob("*/summary.json"):
        file.unlink()
    assert rows_in(folder) == [summary(run) for run in Store(folder).runs()]


@pytest.mark.filterwarnings("ignore::vaescope.errors.ScaleWarning")
def test_a_failed_run_keeps_its_row(tmp_path: Path) -> None:
    with pytest.raises(NonFiniteError):
        fit(DATA * 1e30, 2, runs=tmp_path, **SETTINGS)
    kept = json.loads((first(tmp_path) / "summary.json").read_text())["row"]
    assert kept["status"] == "failed"
    assert read_row(first(tmp_path)) == kept


def test_the_kept_row_is_read(folder: Path) -> None:
    mark_kept(first(folder))
    assert [row.get("kept") for row in rows_in(folder)] == [1, None, None]


@pytest.mark.parametrize("newer", ["run.json", "history.jsonl"])
def test_a_kept_row_older_than_the_run_is_not_read(newer: str, folder: Path) -> None:
    path = first(folder)
    mark_kept(path)
    make_older(path / "summary.json", than=path / newer)
    assert read_row(path) == whole(Run.open(path))


@pytest.mark.parametrize("content", [b"", b'{"id": "a", "sta', b"3", b"[]", b"{}", b'{"id": "a"}', b"\xff\xfe"])
def test_a_damaged_kept_row_is_not_read(content: bytes, folder: Path) -> None:
    path = first(folder)
    (path / "summary.json").write_bytes(content)
    assert read_row(path) == whole(Run.open(path))


def test_a_kept_row_of_an_earlier_version_gets_the_missing_settings(folder: Path) -> None:
    path = first(folder)
    run = Run.open(path)
    lacking = (*rows.settings_of(run.record), *SCHEDULES)
    as_of_0_1(path)
    old = {name: value for name, value in whole(run).items() if name not in lacking}
    (path / "summary.json").write_text(json.dumps({**old, "model": {"name": "vae"}, "kept": 1}))
    assert read_row(path) == {**whole(run), "kept": 1}


def test_a_kept_row_of_a_newer_version_is_not_read(folder: Path) -> None:
    path = first(folder)
    mark_kept(path)
    content = json.loads((path / "summary.json").read_text())
    write_sealed(path / "summary.json", {**content, "version": rows.ROW_VERSION + 1})
    assert read_row(path) == whole(Run.open(path))


def test_a_run_that_trains_again_has_no_kept_row(folder: Path) -> None:
    run = Run.open(first(folder))
    again = Run.create(run.path, run.configuration)
    assert not (run.path / "summary.json").exists()
    assert read_row(run.path) == whole(again)
    assert whole(again)["status"] == "training"


def test_a_shortened_history_of_a_finished_run_is_named(folder: Path) -> None:
    path = first(folder)
    run = Run.open(path)
    model = run.model
    (path / "history.jsonl").write_text('{"step": 2, "split": "train", "loss": 1.0}\n')
    (path / "state.safetensors").unlink()
    Run.create(path, run.configuration).finish(model)
    assert re.search(r"history\.jsonl must reach step 4", problem_in(folder))


def test_a_damaged_record_is_named(folder: Path) -> None:
    file = first(folder) / "run.json"
    file.write_text(file.read_text().replace('"seed": 0', '"seed": 1'))
    (file.parent / "summary.json").unlink()
    assert re.search(rf"{file.parent.name}/run\.json is damaged", problem_in(folder))


def test_measurements_are_columns_and_replace_values_of_the_same_name(folder: Path) -> None:
    path = first(folder)
    own = whole(Run.open(path))
    values = {"active": 9, "test_loss": 7.0, "rate": 1.5}
    results = {"regime": {"asked": {}, "values": values}, "mig": {"values": {"mig": None}}}
    write_sealed(path / "results.json", results)
    assert own["active"] != 9
    assert own["test_loss"] != 7.0
    # The final count of types stays.
    assert read_row(path) == {**own, "test_loss": 7.0, "rate": 1.5, "mig": None}


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"3", b'{"mig": 3}', b'{"mig": {}}', b'{"mig": {"values": {"mig": [1]}}}', b"\xff"]
)
def test_damaged_measurements_are_named(content: bytes, folder: Path) -> None:
    (first(folder) / "results.json").write_bytes(content)
    assert re.search(rf"{first(folder).name}/results\.json is damaged", problem_in(folder))
    with pytest.raises(RunError, match=r"results\.json is damaged"):
        read_row(first(folder))


def test_folders_and_files_that_are_not_runs_are_skipped(folder: Path) -> None:
    expected = rows_in(folder)
    (folder / "empty").mkdir()
    (folder / ".ensembles" / "abc").mkdir(parents=True)
    (folder / "notes.txt").write_text("no run")
    (folder / "half").mkdir()
    (folder / "half" / "summary.json").write_text("{}")
    assert rows_in(folder) == expected
    assert rows_in(folder / "notes.txt") == rows_in(folder / "not there") == []


def test_a_run_that_vanishes_while_it_is_listed_is_skipped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, expected = rows.run_folders(folder), rows_in(folder)
    shutil.rmtree(found[0])
    (found[1] / "run.json").unlink()
    monkeypatch.setattr(rows, "run_folders", lambda _: found)
    assert rows_in(folder) == expected[2:]


def test_a_folder_that_is_being_deleted_is_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = first(folder)
    (path / "summary.json").unlink()
    (path / "history.jsonl").unlink()
    monkeypatch.setattr(rows.time, "sleep", lambda _: shutil.rmtree(path))
    assert path.name not in [row["id"] for row in rows_in(folder)]


WRITER = """
import shutil, sys
from pathlib import Path
from vaescope.runs import Run
from vaescope.runs.journal import Journal
folder, source = Path(sys.argv[1]), Run.open(sys.argv[2])
model, history, path = source.model, source.history, folder / source.id
print(flush=True)
while True:
    path.mkdir()
    run = Run.create(path, source.configuration)
    Journal(path).replace([])
    for row in history:
        Journal(path).append([row])
    run.finish(model)
    shutil.rmtree(path)
"""


def test_a_listing_while_another_process_writes_never_fails(made: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(vaescope.__file__).parents[1])}
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path), str(first(made))], stdout=subprocess.PIPE, env=environment
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        seen, end = set(), time.monotonic() + 2
        try:
            while time.monotonic() < end:
                seen |= {(row["status"], row["step"]) for row in rows_in(tmp_path)}
            assert writer.poll() is None
        finally:
            writer.kill()
    assert {status for status, _ in seen} == {"training", "complete"}
    assert {step for status, step in seen if status == "complete"} == {4}


def test_listing_loads_no_torch(folder: Path) -> None:
    code = "import sys, vaescope as vs; print(len(vs.runs.table(sys.argv[1])), 'torch' in sys.modules)"
    training = Run.open(first(folder))
    Run.create(training.path, training.configuration)
    environment = {**os.environ, "PYTHONPATH": str(Path(vaescope.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.split() == ["3", "False"]


def test_the_names_of_schedules_are_those_of_their_package() -> None:
    assert rows.SCHEDULES == SCHEDULES


@pytest.mark.parametrize("objective", [Beta(2.0), Beta(2.0, warm_up=5), Beta(1, free_bits=0.5), BetaTC(3.0)])
def test_strengths_in_a_row_are_those_of_the_objective(objective: Any, tmp_path: Path) -> None:
    run = fit(DATA, 2, objective=objective, runs=tmp_path, **SETTINGS)
    told = strengths_in_use(run.configuration.member.objective)
    own = summary(run)
    assert list(told) == [name for name in own if name in told]
    assert {name: own[name] for name in told} == told
    assert {name for name in SCHEDULES if own[name]} == set(told) & set(SCHEDULES)


def test_schedules_that_are_off_are_zero_and_shown_where_runs_differ(folder: Path) -> None:
    assert sorted(row["warm_up"] for row in rows_in(folder)) == [0, 0, 10]
    shown = vaescope.runs.table(folder)
    assert sorted(row["warm_up"] for row in shown) == [0, 0, 10]
    assert not any("free_bits" in row for row in shown)
    assert len(vaescope.runs.table(folder, where={"warm_up": 0})) == 2
    assert len(vaescope.runs.table(folder, where={"free_bits": 0})) == 3


def test_conditions_of_measurements_are_shown_where_they_differ(folder: Path) -> None:
    one, other, third = sorted(file.parent for file in folder.glob("*/run.json"))
    few, many = ({"items": items, "exclude": None, "seed": 0} for items in (50, 1000))
    for path, asked in ((one, few), (other, many)):
        write_sealed(path / "results.json", {"mig": {"asked": asked, "values": {"mig": 0.5}}})
    found = {row["id"]: row for row in vaescope.runs.table(folder)}
    assert [found[path.name].get("measure.items") for path in (one, other, third)] == [50, 1000, None]
    assert not any("measure.seed" in row or "measure.exclude" in row for row in found.values())
    mixed = {"mig": {"asked": few, "values": {"mig": 0.5}}, "irs": {"asked": many, "values": {"irs": 0.1}}}
    write_sealed(one / "results.json", mixed)
    assert read_row(one)["measure.items"] == "mig 50, irs 1000"
