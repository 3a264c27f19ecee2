"""The example about a folder of runs prints a line for each run and writes the pages that it names."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

import vaescope as vs

EXAMPLE = Path(__file__).parents[1] / "examples" / "report_runs.py"


def test_the_example_reports_every_run_and_compares_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    store = tmp_path / "demo"
    net = {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]}
    runs = [vs.fit("digits", 3, steps=60, net=net, seed=seed, runs=store, learning_rate=1e-2) for seed in (0, 1)]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "demo"])
    capsys.readouterr()
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    out = capsys.readouterr().out
    for run in runs:
        assert f"{run.id}: " in out
    named = [tmp_path / line.strip() for line in out.partition("open in a browser:")[2].splitlines() if line.strip()]
    assert {path.name for path in named} == {"comparison.html", *(f"report-{run.id}.html" for run in runs)}
    assert all(path.read_text().startswith("<!DOCTYPE html>") for path in named)
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]
