"""`vaescope sweep`: the plan, the table as text, JSON and files; errors are one sentence."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vaescope.cli import main
from vaescope.cli.output import already_trained
from vaescope.cli.sweep import _print_plan
from vaescope.runs import FitOptions
from vaescope.runs.measurements import MeasurementSpec
from vaescope.sweeps.jobs import Job
from vaescope.sweeps.run import SweepPlan
from vaescope.training import Member

TEXT = """
[data]
name = "digits"
[model]
net = {name = "mlp", encoder_widths = [8], decoder_widths = [8]}
latents = 2
[training]
steps = 4
batch = 16
[grid]
"objective.beta" = [4, 1]
seed = [0, 1]
[measure]
items = 60
"""
ONE = TEXT.replace("[4, 1]", "[4]").replace("[0, 1]", "[0]")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full and /proc")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweep.toml").write_text(TEXT)
    return tmp_path / "sweep.toml"


def call(monkeypatch: pytest.MonkeyPatch, *words: Any) -> int:
    monkeypatch.setattr("sys.argv", ["vaescope", "sweep", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_a_dry_run_prints_the_plan_and_leaves_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, file, "--dry-run", "--device", "cpu") == 0
    shown = capsys.readouterr().out
    assert "to do" in shown
    head = shown.splitlines()[1].replace("┃", " ").split()
    assert head == ["job", "runs", "data", "latents", "beta", "seed", "state", "time"]
    assert "1.0, 4.0" in shown
    assert "0, 1" in shown
    assert re.match(r"4 runs in 1 job, 0 done; the others take about \d+ s one after another", shown.splitlines()[-1])
    assert list(file.parent.iterdir()) == [file]


def test_the_plan_as_json_has_the_finished_runs(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, file, "--dry-run", "--json") == 0
    before = json.loads(capsys.readouterr().out)
    assert before["jobs"][0]["state"] == "to do"
    assert call(monkeypatch, file) == 0
    capsys.readouterr()
    assert call(monkeypatch, file, "--dry-run", "--json") == 0
    after = json.loads(capsys.readouterr().out)
    assert (after["jobs"][0]["runs"], after["jobs"][0]["state"], after["jobs"][0]["seconds"]) == (4, "done", None)
    assert after["summary"].startswith("4 runs in 1 job, 4 done;")


def test_runs_that_diverge_are_named(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(TEXT.replace("seed = [0, 1]", "learning_rate = [1e30, 1e-3]"))
    assert call(monkeypatch, file) == 0
    shown = capsys.readouterr().out
    records = [json.loads(path.read_text()) for path in (file.parent / "runs").glob("[!.]*/run.json")]
    failed = [record["id"] for record in records if record["status"] == "failed"]
    (line,) = [line for line in shown.splitlines() if "failure.json" in line]
    start, _, names = line.partition(": ")
    assert start.startswith("2 failed")
    assert sorted(names.split(", ")) == sorted(failed)
    assert len(records) == 4


def test_the_table_has_the_columns_that_differ(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, file, "--runs", "kept here") == 0
    shown = capsys.readouterr().out
    head = shown.splitlines()[1]
    assert all(name in head for name in ("id", "beta", "seed", "test_loss"))
    assert "learning_rate" not in head
    assert "train_loss" not in head
    assert shown.splitlines()[-1].startswith("4 runs; ")
    assert "vaescope runs sql --runs 'kept here'" in shown
    assert len(list((file.parent / "kept here").glob("[!.]*/run.json"))) == 4


def test_reused_runs_are_counted(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown(*words: str) -> str:
        assert call(monkeypatch, file, "--workers", "1", *words) == 0
        return capsys.readouterr().out

    file.write_text(ONE)
    assert "already trained" not in shown()
    file.write_text(ONE.replace("seed = [0]", "seed = [0, 1]"))
    assert "1 of 2 runs was already trained" in shown()
    assert [row["already_trained"] for row in json.loads(shown("--json"))] == [True, True]


@pytest.mark.parametrize(
    ("reused", "runs", "said"),
    [
        (1, 1, "This run was already trained; nothing was trained again."),
        (1, 3, "1 of 3 runs was already trained; it was not trained again."),
        (2, 3, "2 of 3 runs were already trained; they were not trained again."),
        (3, 3, "All 3 runs were already trained; nothing was trained again."),
    ],
)
def test_reused_runs_are_counted_in_good_english(reused: int, runs: int, said: str) -> None:
    assert already_trained(reused, runs) == said


def test_json_and_files_have_every_column(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, file, "--json", "--csv", "table.csv", "--workers", "1") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["beta"], row["seed"]) for row in rows] == [(4.0, 0), (4.0, 1), (1.0, 0), (1.0, 1)]
    with (file.parent / "table.csv").open(newline="") as table:
        written = list(csv.DictReader(table))
    assert [row["id"] for row in written] == [row["id"] for row in rows]
    assert [float(row["test_loss"]) for row in written] == [row["test_loss"] for row in rows]
    assert [*written[0], "already_trained"] == list(rows[0])


@LINUX
def test_with_a_full_disk_the_results_are_still_printed(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, file, "--csv", "/dev/full") == 2
    shown = capsys.readouterr()
    assert "4 runs; " in shown.out
    assert shown.err.startswith("error: '/dev/full'")
    assert "No space left on device" in shown.err


def test_an_existing_file_is_overwritten(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = file.parent / "table.csv"
    table.write_text("of another sweep")
    assert call(monkeypatch, file, "--csv", table, "--dry-run") == 0
    assert table.read_text() == "of another sweep"
    assert call(monkeypatch, file, "--csv", table) == 0
    assert table.read_text().startswith("id,")


def test_one_run_is_shown_with_its_result(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(ONE + 'metrics = ["hoyer"]\n')
    assert call(monkeypatch, file) == 0
    head = capsys.readouterr().out.splitlines()[1].replace("┃", " ").split()
    assert {"id", "active", "mixed", "passive", "test_loss", "test_rate", "hoyer"} <= set(head)
    assert not {"status", "seed", "beta", "latents", "train_loss"} & set(head)


def test_without_items_held_out_the_training_loss_is_shown(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(ONE.replace("steps = 4", "steps = 4\nheld_out = 0"))
    assert call(monkeypatch, file) == 0
    head = capsys.readouterr().out.splitlines()[1].replace("┃", " ").split()
    assert "train_loss" in head
    assert "train_gradient_norm" not in head


def test_a_long_plan_has_the_number_of_jobs_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    job = Job(0, "digits", FitOptions(), (Member(2),), ("0" * 12,), (0,), MeasurementSpec(), 4)
    jobs = tuple(replace(job, number=number) for number in range(43))
    _print_plan(SweepPlan(jobs, (True,) * 43, (0.0,) * 43, 0.0), json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == "3 more of 43 jobs: --json has all"
    assert sum("done" in line for line in lines[:-1]) == 40
    _print_plan(SweepPlan(jobs[:40], (True,) * 40, (0.0,) * 40, 0.0), json=False)
    assert "more of" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["absent.toml"], "absent.toml"),
        (["sweep.toml", "--engine", "steam"], "'steam'"),
        (["sweep.toml", "--address", "auto"], "--address needs --engine ray"),
        (["sweep.toml", "--engine", "ray", "--workers", "2"], "--workers needs --engine local"),
        (["sweep.toml", "--workers", "0"], "workers"),
        (["sweep.toml", "--device", "abacus"], "'abacus'"),
        (["sweep.toml", "--csv", "missing/table.csv"], "missing/table.csv"),
        (["sweep.toml", "--csv", "."], "'.'"),
        (["sweep.toml", "--csv", "x" * 300], "File name too long"),
        (["sweep.toml", "--csv", "x" * 300 + "/table.csv"], "File name too long"),
        pytest.param(["sweep.toml", "--csv", "/proc/table.csv"], "/proc/table.csv", marks=LINUX),
        (["wrong.toml"], "wrong.toml, line 8, training.steps"),
    ],
)
def test_errors_are_one_sentence_before_anything_is_trained(
    words: list[str], said: str, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (file.parent / "wrong.toml").write_text(TEXT.replace("steps = 4", "steps = 0"))
    assert call(monkeypatch, *words) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert said in error
    assert error.count("\n") == 1
    assert {path.name for path in file.parent.iterdir()} == {"sweep.toml", "wrong.toml"}


def test_a_grid_of_a_billion_runs_is_counted_without_building_it(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    many = list(range(1000))
    file.write_text(
        f"{TEXT[: TEXT.index('[grid]')]}[grid]\nseed = {many}\nsplit_seed = {many}\nlearning_rate = {many}\n"
    )
    assert call(monkeypatch, file, "--dry-run", "--device", "cpu") == 2
    message = capsys.readouterr().err
    assert "100,000 combinations" in message
    assert "1000 of seed x 1000 of split_seed x 1000 of learning_rate" in message


@pytest.mark.parametrize("length", [300, 5000])
@pytest.mark.parametrize(
    "words",
    [
        ("sweep", "NAME"),
        ("sweep", "FILE", "--csv", "NAME"),
        ("sweep", "FILE", "--runs", "NAME", "--dry-run"),
        ("sweep", "FILE", "--engine", "NAME"),
        ("sweep", "FILE", "--device", "NAME"),
        ("fit", "digits", "--runs", "NAME", "--steps", "2"),
        ("fit", "digits", "--objective", "NAME"),
        ("fit", "digits", "--set", "NAME=1"),
        ("fit", "digits", "--set", "data.NAME=1"),
        ("fondue", "digits", "--gap", "NAME"),
        ("fondue", "digits", "--plot", "NAME"),
    ],
    ids=" ".join,
)
def test_a_long_name_is_refused_in_one_line(
    words: tuple[str, ...], length: int, file: Path, refused: Callable[..., str]
) -> None:
    assert refused(*(word.replace("FILE", str(file)).replace("NAME", "n" * length) for word in words))
