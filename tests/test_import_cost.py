"""`import vaescope` is quick, and heavy packages load only where they are used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import vaescope

HEAVY = ("plotly", "sklearn", "pydantic", "duckdb", "ray", "lightgbm")
SOURCES = str(Path(vaescope.__file__).parents[1])


def run(code: str, folder: Path | None = None) -> str:
    """The last line printed by a new interpreter."""
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
    """The top-level packages that are loaded after running the code."""
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


COMMAND = """
import runpy, sys
sys.argv = ["vaescope", *{0!r}]
try:
    runpy.run_module("vaescope.cli", run_name="__main__")
except SystemExit as leaving:
    assert not leaving.code, leaving.code
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["fit", "--help"], ["fondue", "--help"], ["runs", "--help"], ["runs"], ["--version"]]
)
def test_help_and_listings_do_not_load_torch(arguments: list[str], tmp_path: Path) -> None:
    loaded = loaded_after(COMMAND.format(arguments), tmp_path)
    assert "typer" in loaded
    # Newer versions of typer load pydantic themselves to read arguments.
    assert loaded & {"torch", "numpy", *HEAVY} <= {"pydantic"}
