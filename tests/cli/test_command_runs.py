"""`vaescope runs`: the list, one run, and SQL queries."""

from __future__ import annotations

import csv
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from typer.testing import CliRunner

import vaescope as vs
from vaescope.cli import app
from vaescope.errors import RunError, VaescopeError
from vaescope.runs import FitOptions, Run, fit_many
from vaescope.runs.sealed import sealed
from vaescope.tables import columns_of
from vaescope.training import Member

RUNNER = CliRunner()
NET = {"name": "mlp", "encoder_widths": [6], "decoder_widths": [6]}
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    data = np.random.default_rng(0).normal(size=(40, 5))
    fit_many(
        data, [Member(latents) for latents in (1, 2)], FitOptions(net=NET, steps=4, batch=8, runs=folder, device="cpu")
    )
    fit_many(data, [Member(3)], FitOptions(net=NET, steps=4, batch=8, held_out=0, runs=folder, device="cpu"))
    return folder


def asked(*arguments: str) -> str:
    result = RUNNER.invoke(app, ["runs", *arguments])
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    return result.stdout


def runs_in(folder: Path) -> list[Run]:
    return [Run.open(file.parent) for file in sorted(folder.glob("*/run.json"))]


def test_runs_are_listed(folder: Path) -> None:
    table = asked("--runs", str(folder))
    assert all(run.id in table for run in runs_in(folder))
    assert "test_loss" in table
    rows = json.loads(asked("--runs", str(folder), "--json"))
    assert [row["id"] for row in rows] == [run.id for run in runs_in(folder)]


@pytest.mark.parametrize("name", ["", "not there"])
def test_for_a_folder_without_runs_the_message_says_how_to_train_some(name: str, tmp_path: Path) -> None:
    place = str(tmp_path / name)
    assert asked("--runs", place).startswith(f"No runs in {place}.")
    assert json.loads(asked("--runs", place, "--json")) == []


def test_a_run_is_shown_by_id_and_by_folder(folder: Path) -> None:
    for run in runs_in(folder):
        for identity in (run.id, str(run.path)):
            shown = asked("show", identity, "--runs", str(folder))
            assert run.id in shown
            assert f"folder {run.path}" in shown
        record = json.loads(asked("show", run.id, "--runs", str(folder), "--json"))
        assert record["configuration"] == run.configuration.plain()
        assert record["history"] == run.history


def test_a_run_without_history_is_shown(folder: Path, tmp_path: Path) -> None:
    run = runs_in(folder)[0]
    (tmp_path / run.id).mkdir()
    Run.create(tmp_path / run.id, run.configuration)
    assert "training" in asked("show", run.id, "--runs", str(tmp_path))
    assert "training" in asked("--runs", str(tmp_path))


def test_sql_queries(folder: Path) -> None:
    query = "SELECT latents, steps FROM runs ORDER BY latents"
    assert json.loads(asked("sql", query, "--runs", str(folder), "--json")) == [
        {"latents": latents, "steps": 4} for latents in (1, 2, 3)
    ]
    assert "latents" in asked("sql", query, "--runs", str(folder))


def test_options_before_a_subcommand_apply_to_it(folder: Path) -> None:
    run = runs_in(folder)[0]
    assert json.loads(asked("--runs", str(folder), "--json", "show", run.id))["id"] == run.id
    assert json.loads(asked("--runs", str(folder), "--json", "sql", "SELECT 1 AS one")) == [{"one": 1}]


@pytest.fixture
def many(folder: Path, tmp_path: Path) -> Path:
    """The three runs, and others with different seeds and metrics."""
    place = Path(shutil.copytree(folder, tmp_path / "many"))
    configuration = runs_in(folder)[0].configuration
    for seed in range(1, 48):
        other = replace(configuration, member=replace(configuration.member, seed=seed))
        (place / other.id).mkdir()
        Run.create(place / other.id, other)
        (place / other.id / "results.json").write_text(json.dumps(sealed({"mig": {"values": {"mig": seed % 7 / 7}}})))
    return place


def listed(text: str) -> list[str]:
    return re.findall(r"\b[0-9a-f]{12}\b", text)


def test_forty_runs_are_shown_with_a_hint_how_to_see_all(many: Path) -> None:
    table = asked("--runs", str(many))
    ids = [run.id for run in runs_in(many)]
    assert listed(table) == ids[:40]
    assert table.splitlines()[-1].startswith("10 more of 50: --all")
    everything = asked("--runs", str(many), "--all")
    assert listed(everything) == ids
    assert "more of" not in everything
    assert len(json.loads(asked("--runs", str(many), "--json"))) == 50


@pytest.mark.parametrize(
    "arguments",
    [
        {"where": {"latents": [2, 3]}},
        {"where": {"seed": [5, 6, 7], "status": "training"}, "sort": "-seed"},
        {"where": {"mig": None}, "sort": "test_loss"},
        {"sort": "-mig", "limit": 5},
    ],
)
def test_runs_are_filtered_as_in_python(arguments: dict[str, Any], many: Path) -> None:
    options = ["--runs", str(many)]
    for name, values in arguments.get("where", {}).items():
        texts = [str(value) for value in values] if isinstance(values, list) else [values or ""]
        options += ["--where", f"{name}={','.join(texts)}"]
    for name in ("sort", "limit"):
        options += [f"--{name}", str(arguments[name])] if name in arguments else []
    expected = vs.runs.table(many, **arguments)
    assert expected
    assert json.loads(asked(*options, "--json")) == json.loads(json.dumps(expected))
    assert listed(asked(*options)) == [row["id"] for row in expected[:40]]


def test_any_setting_can_be_filtered_by_including_lists_and_constant_ones(tmp_path: Path) -> None:
    data = np.random.default_rng(0).normal(size=(40, 5))
    for widths in ([6, 4], [5, 4]):
        net = {**NET, "encoder_widths": widths}
        fit_many(data, [Member(2)], FitOptions(net=net, steps=2, batch=8, runs=tmp_path, device="cpu", progress=False))
    rows = json.loads(asked("--runs", str(tmp_path), "--json"))
    assert {row["net.encoder_widths"] for row in rows} == {"[6, 4]", "[5, 4]"}
    (row,) = json.loads(asked("--runs", str(tmp_path), "--json", "--where", "net.encoder_widths=[6, 4]"))
    assert row["id"] in [one["id"] for one in rows]
    assert json.loads(asked("--runs", str(tmp_path), "--json", "--where", "net.encoder_widths=[6,4]")) == [row]
    assert len(json.loads(asked("--runs", str(tmp_path), "--json", "--where", "prior=standard"))) == 2
    assert json.loads(asked("--runs", str(tmp_path), "--json", "--where", "split_seed=1")) == []


def test_an_id_of_digits_is_text_and_a_number_is_a_number(many: Path) -> None:
    run = runs_in(many)[3]
    file = many / "123456789012" / "run.json"
    Path(shutil.copytree(run.path, file.parent))
    row = {**vs.runs.table(many, {"id": run.id})[0], "id": "123456789012", "status": "complete"}
    (file.parent / "summary.json").write_text(json.dumps(sealed({"version": 1, "row": row})))
    found = asked("--runs", str(many), "--where", "id=123456789012", "--where", "learning_rate=0.00010", "--json")
    assert [row["id"] for row in json.loads(found)] == ["123456789012"]


def test_columns_can_be_selected(many: Path) -> None:
    rows = json.loads(asked("--runs", str(many), "--columns", "seed,mig,likelihood", "--json"))
    assert list(rows[0]) in (["seed", "mig", "likelihood"], ["seed", "likelihood"])
    for columns in ("seed,mig,likelihood", " seed, mig ,likelihood", "seed,mig,seed,likelihood"):
        header = asked("--runs", str(many), "--columns", columns).splitlines()[1]
        assert re.findall(r"\w+", header) == ["seed", "mig", "likelihood"]


def test_files_hold_all_runs_that_match(many: Path, tmp_path: Path) -> None:
    file, other = tmp_path / "runs.csv", tmp_path / "runs.parquet"
    said = asked("--runs", str(many), "--sort", "-seed", "--csv", str(file), "--parquet", str(other))
    assert said == f"50 runs written to {file} and {other}\n"
    rows = vs.runs.table(many, sort="-seed")
    names = columns_of(rows)
    with file.open(newline="") as opened:
        read = list(csv.DictReader(opened))
    assert [list(row) for row in read] == [names] * 50
    for cells, row in zip(read, rows, strict=True):
        assert cells == {name: "" if row.get(name) is None else str(row[name]) for name in names}
    with duckdb.connect() as connection:
        result = connection.execute("SELECT * FROM read_parquet(?)", [str(other)])
        assert [column[0] for column in result.description] == names
        assert result.fetchall() == [tuple(row.get(name) for name in names) for row in rows]


def test_without_matching_runs_the_filter_is_named(many: Path, tmp_path: Path) -> None:
    assert asked("--runs", str(many), "--where", "latents=77") == f"No runs match (50 in {many}).\n"
    assert json.loads(asked("--runs", str(many), "--where", "latents=77", "--json")) == []
    file = tmp_path / "none.csv"
    asked("--runs", str(many), "--where", "latents=77", "--columns", "id,beta", "--csv", str(file))
    assert file.read_text() == "id,beta\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--where", "latnets=3"], "where.*'latents'"),
        (["--sort", "-latnets"], "sort.*'latents'"),
        (["--columns", "id,latnets"], "--columns.*'latents'"),
        (["--where", "latents"], "COLUMN=VALUE.*'latents'"),
        (["--where", "=3"], "COLUMN=VALUE.*'=3'"),
        (["--all", "--limit", "3"], "--all or --limit"),
        (["--csv", "/nowhere/at/all.csv"], r"/nowhere/at/all\.csv"),
        (["--parquet", "/nowhere/at/all.parquet"], r"/nowhere/at/all\.parquet"),
        pytest.param(["--csv", "/dev/full"], "/dev/full.*No space left", marks=FULL),
        pytest.param(["--parquet", "/dev/full"], "/dev/full", marks=FULL),
        (["--csv", "same.file", "--parquet", "./same.file"], "--csv and --parquet.*'same.file'"),
        (["--where", "seed=1", "sql", "SELECT 1"], "sql.*--where.*SQL"),
        (["--csv", "x.csv", "--limit", "1", "sql", "SELECT 1"], "sql.*--limit and --csv"),
        (["--sort", "id", "--all", "show", "a"], "show.*--sort and --all"),
        (["--columns", "id", "--parquet", "x", "show", "a"], "show.*--columns and --parquet"),
        (["sql", "--json", "SELECT id, seed, ID, id FROM runs"], "but id.*AS"),
        (["sql", "--json", "SELECT * FROM runs r JOIN history h ON r.id = h.run"], "but step"),
    ],
)
def test_wrong_queries_are_named(
    arguments: list[str], words: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = RUNNER.invoke(app, ["runs", "--runs", str(folder), *arguments])
    assert isinstance(result.exception, VaescopeError)
    assert re.search(words, str(result.exception))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--csv", "--parquet"])
def test_without_runs_no_file_is_written(option: str, tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["runs", "--runs", str(tmp_path), option, str(tmp_path / "file")])
    assert isinstance(result.exception, RunError)
    assert str(tmp_path) in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_one_file_that_cannot_be_written_leaves_the_other_unwritten(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    words = ["runs", "--runs", str(folder), "--csv", str(file), "--parquet", str(tmp_path / ("x" * 300))]
    assert "File name too long" in str(RUNNER.invoke(app, words).exception)
    assert not file.exists()


def test_sql_types_that_json_lacks_become_numbers_and_text(folder: Path) -> None:
    query = "SELECT 0.5 * latents AS half, MAP {DATE '2020-01-01': 0.5} AS days, [1.5, NULL] AS some FROM runs LIMIT 1"
    (row,) = json.loads(asked("sql", query.replace("LIMIT", "ORDER BY latents LIMIT"), "--runs", str(folder), "--json"))
    assert row == {"half": 0.5, "days": {"2020-01-01": 0.5}, "some": [1.5, None]}
    assert isinstance(row["half"], float)


def test_a_run_is_shown_with_its_metrics(many: Path) -> None:
    run = next(run for run in runs_in(many) if (run.path / "results.json").exists())
    assert re.search(r"\bmig\b", asked("show", run.id, "--runs", str(many)))
    shown = json.loads(asked("show", run.id, "--runs", str(many), "--json"))
    assert shown["measurements"] == {"mig": pytest.approx(run.configuration.member.seed % 7 / 7)}
    assert shown["failure"] is None


def test_a_failed_run_is_shown_with_the_reason(folder: Path, tmp_path: Path) -> None:
    run = runs_in(folder)[0]
    (tmp_path / run.id).mkdir()
    failure = {"error": "the loss must be finite, it is nan.", "term": "loss", "step": 3, "items": [1]}
    failed = Run.create(tmp_path / run.id, run.configuration).fail(failure)
    assert failed.failure == failure
    assert failure["error"] in asked("show", run.id, "--runs", str(tmp_path))
    assert json.loads(asked("show", run.id, "--runs", str(tmp_path), "--json"))["failure"] == failure
    for content in ("", "3", "{}"):
        (failed.path / "failure.json").write_text(content)
        with pytest.raises(RunError, match=r"failure\.json"):
            _ = failed.failure
