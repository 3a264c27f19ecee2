"""`vaescope prune`: text and JSON output, errors, and pruned runs in other commands."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from vaescope import cli
from vaescope.runs import Run, fit

RUNNER = CliRunner()
NET = {"name": "mlp", "encoder_widths": [6], "decoder_widths": [6]}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("pruned")
    return fit("digits", latents=3, net=NET, steps=4, batch=8, runs=folder, device="cpu")


def asked(*arguments: str) -> str:
    result = RUNNER.invoke(cli.app, list(arguments))
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    return result.stdout


def test_text_output_has_the_cost_a_row_for_each_latent_and_the_next_step(run: Run) -> None:
    shown = asked("prune", run.id[:8], "--keep", "0,2", "--items", "100", "--runs", str(run.path.parent))
    found = re.match(
        rf"Run ([0-9a-f]{{12}}) has 2 of the 3 latents of run {run.id}: a smaller code, while the network", shown
    )
    assert found
    assert "reconstructions differ by" in shown
    assert "held at" in shown
    last = shown.splitlines()[-1]
    assert last == f"next: `vaescope report {found[1]} --runs {run.path.parent}`"


def test_the_folder_is_named_only_if_it_is_not_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    original = fit("digits", latents=2, net=NET, steps=2, batch=8, device="cpu")
    last = asked("prune", original.id, "--keep", "1").splitlines()[-1]
    assert re.fullmatch(r"next: `vaescope report [0-9a-f]{12}`", last)


def test_json_output_and_reuse_of_the_pruned_run(run: Run) -> None:
    arguments = ("prune", str(run.path), "--keep", "1,0", "--json")
    first = json.loads(asked(*arguments))
    assert json.loads(asked(*arguments)) == first
    assert (first["original"], first["kept"], first["dropped"]) == (run.id, [0, 1], [2])
    assert first["parameters"] < first["original_parameters"]
    assert [row["now"] for row in first["latents"]] == [0, 1, None]


def test_other_commands_accept_a_pruned_run(run: Run) -> None:
    small = json.loads(asked("prune", str(run.path), "--keep", "0,2", "--json"))["run"]
    where = ("--runs", str(run.path.parent))
    rows = {row["id"]: row for row in json.loads(asked("runs", *where, "--json"))}
    assert (rows[small]["latents"], rows[run.id]["latents"]) == (2, 3)
    assert small in asked("runs", *where)
    shown = json.loads(asked("runs", "show", small, *where, "--json"))
    assert shown["configuration"]["pruned"]["run"] == run.id
    assert shown["history"] == []
    assert small in asked("runs", "show", small, *where)
    assert "2 latents" in asked("diagnose", small, *where)
    assert small in asked("compare", run.id, small, *where)
    assert json.loads(asked("runs", "sql", "SELECT count(*) AS n FROM runs", *where, "--json"))[0]["n"] >= 2


WRONG = {
    "no such run": (["zzz"], "'zzz'"),
    "another word": (["RUN", "--keep", "alive"], "'alive'"),
    "no such latent": (["RUN", "--keep", "3"], "whole numbers from 0 to 2"),
    "negative": (["RUN", "--keep", "-1"], "whole numbers from 0 to 2"),
    "no number": (["RUN", "--keep", "0,b"], "--keep"),
    "other shape": (["RUN", "--data", "pinwheel"], "must have items of shape"),
    "one item": (["RUN", "--items", "1"], "items"),
    "wrong alpha": (["RUN", "--alpha", "1"], "alpha.*0.5"),
}


@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG)
def test_wrong_input_is_named_and_changes_nothing(
    arguments: list[str],
    words: str,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: Callable[..., str],
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in run.path.parent.iterdir())
    assert re.search(words, refused("prune", *(run.path if word == "RUN" else word for word in arguments)))
    assert sorted(path.name for path in run.path.parent.iterdir()) == before
