"""`vaescope export`: text and JSON output, and errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from vaescope import cli
from vaescope.runs import Run, fit

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("onnx_operators")

RUNNER = CliRunner()
NET = {"name": "mlp", "encoder_widths": [6], "decoder_widths": [6]}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("exported")
    return fit("digits", latents=2, net=NET, steps=2, batch=8, runs=folder, device="cpu")


def test_only_the_files_and_the_next_step_are_written_to_stdout(
    run: Run, tmp_path: Path, printed: Callable[..., str]
) -> None:
    shown = printed("export", run.id[:8], "--onnx", "-o", tmp_path / "made", "--runs", run.path.parent)
    assert shown.startswith(f"Run {run.id} as encoder.onnx and decoder.onnx: within ")
    assert "max_difference" in shown
    assert "onnxruntime.InferenceSession(" in shown
    assert shown.splitlines()[-1] == f"next: `vaescope report {run.path}`"
    assert {file.name for file in (tmp_path / "made").iterdir()} == {"encoder.onnx", "decoder.onnx"}


def test_json_output(run: Run) -> None:
    result = RUNNER.invoke(cli.app, ["export", str(run.path), "--json"])
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert found["run"] == run.id
    assert [row["file"] for row in found["files"]] == [str(run.path / "onnx" / f"{n}coder.onnx") for n in ("en", "de")]
    assert all(row["max_difference"] < 1e-4 for row in found["files"])


WRONG = {
    "no such run": (["zzz", "--onnx"], "'zzz'"),
    "a file in the way": (["RUN", "--onnx", "-o", "FILE"], "folder"),
    "one item": (["RUN", "--onnx", "--check-items", "1"], "items.*2"),
}


@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG)
def test_wrong_input_is_named(
    arguments: list[str], words: str, run: Run, tmp_path: Path, refused: Callable[..., str]
) -> None:
    file = tmp_path / "taken"
    file.write_text("")
    places = {"RUN": str(run.path), "FILE": str(file)}
    assert re.search(words, refused("export", *(places.get(word, word) for word in arguments)))
