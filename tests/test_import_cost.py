"""`import vaescope` is quick, and heavy packages load only where they are used."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import vaescope

HEAVY = ("plotly", "sklearn", "pydantic", "duckdb", "ray", "lightgbm")
SOURCES = str(Path(vaescope.__file__).parents[1])


def run(code: str, folder: Path | None = None) -> str:
    """The last line that a fresh interpreter prints."""
    path = os.pathsep.join(filter(None, [SOURCES, os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def loaded_after(code: str, folder: Path | None = None) -> set[str]:
    """The top-level packages that are loaded once the code has run."""
    names = "import sys, json; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    return set(json.loads(run(f"{code}\n{names}", folder)))


def test_importing_loads_neither_heavy_packages_nor_torch() -> None:
    assert loaded_after("import vaescope") & {*HEAVY, "torch", "numpy", "typer", "pooch", "rich"} == set()


FIT = """
import numpy as np
import vaescope as vs
images = np.random.default_rng(0).integers(0, 256, (40, 1, 16, 16), dtype=np.uint8)
run = vs.fit(images, latents=2, steps=2, batch=8, net={"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]},
             device="cpu", runs="runs")
codes = vs.encode(run.model, images)
assert codes.mean.shape == (40, 2)
data = vs.open_dataset("synthetic-linear")
"""


def test_fitting_and_encoding_load_no_heavy_package(tmp_path: Path) -> None:
    loaded = loaded_after(FIT, tmp_path)
    assert {"torch", "safetensors"} <= loaded
    assert loaded & {*HEAVY, "typer", "pooch"} == set()


def test_importing_costs_at_most_a_tenth_more_than_torch() -> None:
    timed = "import time; start = time.perf_counter(); import {0}; print(time.perf_counter() - start)"
    rounds = [[float(run(timed.format(name))) for name in ("torch", "vaescope")] for _ in range(5)]
    torch_seconds, own_seconds = (statistics.median(column) for column in zip(*rounds, strict=True))
    assert own_seconds <= 1.1 * torch_seconds


COMMAND = """
import runpy, sys
sys.argv = ["vaescope", *{0!r}]
try:
    runpy.run_module("vaescope.cli", run_name="__main__")
except SystemExit as leaving:
    assert not leaving.code, leaving.code
"""


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["runs", "--help"], ["--version"]])
def test_asking_the_command_line_for_help_does_not_load_torch(arguments: list[str]) -> None:
    loaded = loaded_after(COMMAND.format(arguments))
    assert "typer" in loaded
    # Newer versions of typer load pydantic themselves to read arguments.
    assert loaded & {"torch", "numpy", *HEAVY} <= {"pydantic"}
