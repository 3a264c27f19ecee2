"""`vaescope report`: a page for a run, for codes, for several runs; errors are one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vaescope.cli import main
from vaescope.runs import FitOptions, Run, fit_many
from vaescope.training import Member

NET = {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    members = [Member(2, {"name": "beta", "beta": beta}) for beta in (1.0, 4.0)]
    return fit_many("digits", members, FitOptions(net=NET, steps=10, runs=tmp_path_factory.mktemp("runs")))


def call(monkeypatch: pytest.MonkeyPatch, *words: Any) -> int:
    monkeypatch.setattr("sys.argv", ["vaescope", "report", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_a_run_by_the_start_of_its_id(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "page.html"
    assert call(monkeypatch, runs[0].id[:6], "--runs", runs[0].path.parent, "-o", file) == 0
    assert capsys.readouterr().out == f"{file} ({file.stat().st_size / 1e6:.1f} MB): open it in a browser\n"
    assert runs[0].id in file.read_text()


def test_several_runs_and_json(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "page.html"
    words = [run.path for run in runs]
    assert call(monkeypatch, *words, "-o", file, "--no-layers", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"path": str(file), "bytes": file.stat().st_size}
    assert "2 models compared" in file.read_text()


def test_a_file_of_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mean = np.random.default_rng(0).normal(size=(200, 3))
    np.savez(tmp_path / "codes.npz", mean=mean, variance=np.full_like(mean, 0.05))
    file = tmp_path / "page.html"
    assert call(monkeypatch, tmp_path / "codes.npz", "-o", file) == 0
    assert "3 of 3 latents are active" in file.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "'nowhere'"),
        (["nowhere", "-o", "missing/page.html"], "missing/page.html"),
        (["{run}", "--metrics", "guess"], "'guess'"),
        (["{run}", "-o", "page.pdf"], "'page.pdf' must end in .html"),
        (["{run}", "--runs", "nowhere", "-o", "page.PNG"], "'page.PNG' must end in .html"),
        (["abc", "--runs", "no-folder"], "the folder no-folder does not exist"),
    ],
)
def test_errors_are_one_sentence(
    words: list[str],
    said: str,
    runs: list[Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, *(word.format(run=runs[0].path) for word in words)) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert said in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
