"""`vaescope compare` and `diagnose --metrics`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from vaescope import cli
from vaescope.codes import Representation
from vaescope.metrics import METRICS
from vaescope.runs import fit

RUNNER = CliRunner()
NET = {"name": "mlp", "encoder_widths": [6], "decoder_widths": [6]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("side-by-side")
    for seed in (0, 1):
        fit("digits", latents=3, net=NET, steps=10, seed=seed, runs=folder, device="cpu")
    return folder


def asked(*arguments: str) -> str:
    result = RUNNER.invoke(cli.app, list(arguments), env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def ids(folder: Path) -> list[str]:
    return sorted(file.parent.name for file in folder.glob("*/run.json"))


def test_text_output_has_the_verdict_the_runs_and_the_matrix(folder: Path, tmp_path: Path) -> None:
    one, other = ids(folder)
    output = asked("compare", one, other, "--runs", str(folder), "--layers", "--plot", str(tmp_path / "alike.html"))
    assert "seed 0 and seed 1 encode" in output or "seed 1 and seed 0 encode" in output
    assert output.count("seed 1") >= 3
    assert one in output
    assert other in output
    assert "1.000" in output
    assert "encoder" in output
    assert (tmp_path / "alike.html").stat().st_size > 4e5


def test_json_output(folder: Path) -> None:
    found = json.loads(asked("compare", *ids(folder), "--runs", str(folder), "--json"))
    assert len(found["models"]) == len(found["matrix"]) == 2
    assert found["measure"] == "cka"


def test_diagnose_computes_the_named_metrics(folder: Path) -> None:
    name = ids(folder)[0]
    found = json.loads(asked("diagnose", name, "--runs", str(folder), "--metrics", "mig,hoyer", "--json"))
    assert {row["metric"] for row in found["metrics"]} == {"mig", "hoyer"}
    assert "latent 0 encodes" in found["latents"][0]["encodes"]
    assert "mig 0." in asked("diagnose", name, "--runs", str(folder), "--metrics", "mig")


def test_the_help_names_every_metric() -> None:
    words = set(asked("diagnose", "--help").replace(",", " ").replace(".", " ").split())
    assert set(METRICS) <= words


def test_constant_codes_have_empty_cells_and_a_reason(tmp_path: Path) -> None:
    mean = torch.randn(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    files = []
    for name, scale in (("one", 1), ("two", -1), ("constant", 0)):
        files.append(str(tmp_path / f"{name}.npz"))
        Representation(scale * mean, torch.full_like(mean, 0.1), mean).save(files[-1])
    output = asked("compare", *files)
    assert "two of 3 models" in output
    assert "constant.npz are equal for all items" in output
    assert "nan" not in output
