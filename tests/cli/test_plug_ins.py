"""A plug-in package adds variants without changes to vaescope: they are listed, trained, saved and measured."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import vaescope

PACKAGE = Path(__file__).parents[1] / "plugin_package"
SOURCES = str(Path(vaescope.__file__).parents[1])
SMALL = ["digits", "--net", "narrow", "--set", "net.width=3", "--likelihood", "cauchy", "--objective", "squared_rate"]
# Several commands in one process: most of the time goes into loading torch. A word with a star is a path to look up.
DRIVER = """
import glob, json, sys
from vaescope.cli import app
for words in json.load(sys.stdin):
    app([glob.glob(word)[0] if "*" in word else word for word in words], standalone_mode=False)
    print("\\0")
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as pip installs it: the module, and its metadata with the entry points."""
    folder = tmp_path_factory.mktemp("site-packages")
    shutil.copy(PACKAGE / "vaescope_example_plugin.py", folder)
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name, version = project["name"], project["version"]
    metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = [
        "\n".join([f"[{group}]", *(f"{variant} = {place}" for variant, place in points.items())])
        for group, points in project["entry-points"].items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(groups))
    return folder


def run(*words: str, plug_ins: Path | None, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run the interpreter with or without the package on its path."""
    path = os.pathsep.join([SOURCES, *([] if plug_ins is None else [str(plug_ins)])])
    return subprocess.run(
        [sys.executable, *words],
        input=given,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200", "NO_COLOR": "1"},
    )


def outputs(*commands: list[str], plug_ins: Path | None) -> list[str]:
    """What each command prints, all run in one process."""
    done = run("-c", DRIVER, plug_ins=plug_ins, given=json.dumps(commands))
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\0\n")[:-1]


@pytest.fixture(scope="module")
def helped(installed: Path) -> dict[str, tuple[str, str]]:
    """The help of each command with the package and without."""
    commands = ("fit", "fondue", "diagnose")
    both = (outputs(*([command, "--help"] for command in commands), plug_ins=found) for found in (installed, None))
    return dict(zip(commands, zip(*both, strict=True), strict=True))


@pytest.fixture(scope="module")
def used(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """A folder of runs made with the package, and the JSON that `fit`, `diagnose` and `fondue` printed."""
    runs = tmp_path_factory.mktemp("runs")
    where = ["--runs", str(runs), "--device", "cpu", "--json"]
    fit = ["fit", *SMALL, "--latents", "3", "--steps", "20", "--tracker", "lines", *where]
    search = ["--period", "20", "--max-periods", "2", "--init", "2", "--largest", "4", "--seeds", "1"]
    fondue = ["fondue", *SMALL, "--gap", "quiet", "--set", "gap.variance=0.01", *search, *where]
    # A folder of a run has a name of hexadecimal digits.
    diagnose = ["diagnose", str(runs / "[0-9a-f]*"), "--metrics", "best_correlation", "--runs", str(runs), "--json"]
    trained, *found = map(json.loads, outputs(fit, diagnose, fondue, plug_ins=installed))
    return runs, [trained[0], *found]


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("fit", ["narrow", "cauchy", "squared_rate", "lines"]),
        ("fondue", ["narrow", "cauchy", "squared_rate", "quiet"]),
        ("diagnose", ["best_correlation"]),
    ],
)
def test_the_help_lists_variants_of_plug_ins(
    command: str, names: list[str], helped: dict[str, tuple[str, str]]
) -> None:
    shown, without = helped[command]
    assert "Usage" in without
    assert all(name in shown for name in names)
    assert not any(name in without for name in names)


def test_the_help_of_fit_names_the_package(helped: dict[str, tuple[str, str]]) -> None:
    assert "vaescope-example-plugin 0.3" in helped["fit"][0]


def test_a_run_is_trained_and_saved_with_parts_of_a_plug_in(used: tuple[Path, list[Any]]) -> None:
    runs, (row, *_) = used
    assert (row["status"], row["net"], row["likelihood"], row["objective"]) == (
        "complete",
        "narrow",
        "cauchy",
        "squared_rate",
    )
    configuration = json.loads((runs / row["id"] / "run.json").read_text())["configuration"]
    assert configuration["architecture"]["net"] == {"name": "narrow", "width": 3}
    assert configuration["member"]["objective"]["weight"] == 0.1


def test_a_tracker_of_a_plug_in_receives_the_run(used: tuple[Path, list[Any]]) -> None:
    runs, (row, *_) = used
    lines = (runs / row["id"] / "lines.txt").read_text().splitlines()
    assert lines[0].startswith("train 1 ")
    assert lines[-1] == "complete 20"


def test_a_metric_of_a_plug_in_is_measured(used: tuple[Path, list[Any]]) -> None:
    (score,) = used[1][1]["metrics"]
    assert score["metric"] == "best_correlation"
    assert 0 <= score["score"] <= 1


def test_a_search_uses_the_gap_of_a_plug_in_and_is_saved(used: tuple[Path, list[Any]]) -> None:
    runs, (*_, found) = used
    assert (found["gap"], found["threshold"]) == ("quiet", 0.5)
    assert found["trained_steps"] > 0
    assert len(list(runs.glob("fondue-*/fondue.json"))) == 1


def test_without_the_plug_in_a_run_is_listed_and_names_the_missing_package(used: tuple[Path, list[Any]]) -> None:
    runs, (row, *_) = used
    listed = run("-m", "vaescope.cli", "runs", "--runs", str(runs), plug_ins=None)
    assert row["id"] in listed.stdout
    opened = run("-m", "vaescope.cli", "diagnose", row["id"], "--runs", str(runs), plug_ins=None)
    assert opened.returncode == 2
    assert "vaescope-example-plugin 0.3" in opened.stderr
    assert "delete" not in opened.stderr.lower()
