"""The example in plain PyTorch runs unchanged: types, cards, one line per latent, and the report."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "plain_pytorch.py"


def test_the_example_prints_which_latents_the_model_uses_and_writes_its_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "pages").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "pages"])
    left = runpy.run_path(str(EXAMPLE), run_name="__main__")
    out = capsys.readouterr().out
    active, of, passive = map(
        int, re.match(r"(\d+) of (\d+) latents are active, \d+ mixed, and (\d+) passive", out).groups()
    )
    assert of == 12
    assert active > 1
    assert passive > 1
    assert "read as mean and log-variance" in out
    assert re.findall(r"^latent (\d+): ", out, re.MULTILINE) == [str(latent) for latent in range(of)]
    assert left["model"].training
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")] == ["pages/report.html"]
