"""The wheel, installed with its dependencies into an empty environment, runs a command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OFFLINE = ("ConnectionError", "NewConnectionError", "NameResolutionError", "Network is unreachable")


def run(*words: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    # Neither the sources nor this environment are importable.
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=folder, env=clean)


@pytest.mark.slow
def test_the_wheel_works_without_the_sources(tmp_path: Path) -> None:
    build = run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", tmp_path, ROOT, folder=tmp_path)
    if any(word in build.stderr for word in OFFLINE):
        pytest.skip("no package index can be reached")
    assert build.returncode == 0, build.stderr
    (wheel,) = tmp_path.glob("*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "venv", folder=tmp_path)
    binaries = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    install = ["-m", "pip", "install", "--no-compile", "--constraint", ROOT / "constraints.txt", wheel]
    done = run(binaries / "python", *install, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    fit = ["fit", "digits", "--latents", "2", "--steps", "20", "--json"]
    fitted = run(binaries / "vaescope", *fit, folder=tmp_path)
    assert fitted.returncode == 0, fitted.stderr
    assert json.loads(fitted.stdout)[0]["status"] == "complete"
    home = run(binaries / "python", "-c", "import vaescope; print(vaescope.__file__)", folder=tmp_path).stdout.strip()
    assert Path(home).is_relative_to(tmp_path), home
