"""`vaescope runs`: the list, one run, and questions in SQL."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from vaescope.cli import app
from vaescope.runs import Run, fit_many
from vaescope.training import Member

RUNNER = CliRunner()
NET = {"name": "mlp", "encoder_widths": [6], "decoder_widths": [6]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    data = np.random.default_rng(0).normal(size=(40, 5))
    fit_many(data, [Member(latents) for latents in (1, 2)], net=NET, steps=4, batch=8, runs=folder, device="cpu")
    fit_many(data, [Member(3)], net=NET, steps=4, batch=8, held_out=0, runs=folder, device="cpu")
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
def test_a_folder_without_runs_says_how_to_get_some(name: str, tmp_path: Path) -> None:
    place = str(tmp_path / name)
    assert asked("--runs", place) == f"no runs in {place}; train one with `vaescope fit dsprites-small --steps 200`\n"
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
    Run.create(tmp_path / run.id, run.configuration, {})
    assert "training" in asked("show", run.id, "--runs", str(tmp_path))
    assert "training" in asked("--runs", str(tmp_path))


def test_questions_are_answered(folder: Path) -> None:
    query = "SELECT latents, steps FROM runs ORDER BY latents"
    assert json.loads(asked("sql", query, "--runs", str(folder), "--json")) == [
        {"latents": latents, "steps": 4} for latents in (1, 2, 3)
    ]
    assert "latents" in asked("sql", query, "--runs", str(folder))


def test_what_is_said_before_a_subcommand_holds_for_it(folder: Path) -> None:
    run = runs_in(folder)[0]
    assert json.loads(asked("--runs", str(folder), "--json", "show", run.id))["id"] == run.id
    assert json.loads(asked("--runs", str(folder), "--json", "sql", "SELECT 1 AS one")) == [{"one": 1}]
