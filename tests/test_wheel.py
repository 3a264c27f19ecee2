"""The wheel, installed with its dependencies into an empty environment, runs a command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from importlib.metadata import Distribution, distribution
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
OFFLINE = ("ConnectionError", "NewConnectionError", "NameResolutionError", "Network is unreachable")


def run(*words: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    # Neither the sources nor this environment are importable.
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=folder, env=clean)


def dependencies(metadata: Path) -> list[Distribution]:
    """What an installed distribution requires, directly or indirectly, as installed in this environment."""
    found: dict[str, Distribution] = {}
    waiting = Distribution.at(metadata).requires or []
    while waiting:
        requirement = Requirement(waiting.pop())
        if requirement.name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found[requirement.name] = distribution(requirement.name)
        waiting += found[requirement.name].requires or []
    return list(found.values())


def link(distributions: list[Distribution], packages: Path) -> None:
    """Add packages of this environment to another: unpacking torch takes twenty seconds, linking it none."""
    tops = [{file.parts[0] for file in one.files or []} for one in distributions]
    shared = {name for name, count in Counter(chain(*tops)).items() if count > 1}
    for installed in distributions:
        for file in installed.files or []:
            top = file.parts[0]
            # Several distributions may put files into one folder.
            place = Path(file) if top in shared else Path(top)
            if ".." not in file.parts and not (packages / place).exists():
                (packages / place).parent.mkdir(parents=True, exist_ok=True)
                (packages / place).symlink_to(installed.locate_file(place))


@pytest.mark.slow
def test_the_wheel_works_without_the_sources(tmp_path: Path) -> None:
    pip, venv = [sys.executable, "-m", "pip"], tmp_path / "venv"
    build = run(*pip, "wheel", "--no-deps", "--wheel-dir", tmp_path, ROOT, folder=tmp_path)
    if any(word in build.stderr for word in OFFLINE):
        pytest.skip("no package index can be reached")
    assert build.returncode == 0, build.stderr
    (wheel,) = tmp_path.glob("*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", venv, folder=tmp_path)
    done = run(*pip, "--python", venv, "install", "--no-deps", wheel, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    (metadata,) = venv.glob("**/vaescope-*.dist-info")
    link(dependencies(metadata), metadata.parent)
    check = run(*pip, "--python", venv, "check", folder=tmp_path)
    assert check.returncode == 0, check.stdout
    binaries = venv / ("Scripts" if os.name == "nt" else "bin")
    fit = ["fit", "digits", "--latents", "2", "--steps", "20", "--json"]
    fitted = run(binaries / "vaescope", *fit, folder=tmp_path)
    assert fitted.returncode == 0, fitted.stderr
    assert json.loads(fitted.stdout)[0]["status"] == "complete"
    home = run(binaries / "python", "-c", "import vaescope; print(vaescope.__file__)", folder=tmp_path).stdout.strip()
    assert Path(home).is_relative_to(tmp_path), home
