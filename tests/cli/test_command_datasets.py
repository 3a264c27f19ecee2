"""`vaescope datasets`, help and version."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from vaescope import __version__
from vaescope.cli import app
from vaescope.data import DATASETS

RUNNER = CliRunner()


def test_every_data_set_is_listed_for_people() -> None:
    result = RUNNER.invoke(app, ["datasets"])
    assert result.exit_code == 0
    assert all(name in result.stdout for name in DATASETS)
    assert "\x1b" not in result.stdout


def test_every_data_set_is_listed_for_machines() -> None:
    result = RUNNER.invoke(app, ["datasets", "--json"])
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    assert [row["name"] for row in rows] == sorted(DATASETS)
    assert all(set(row) == {"name", "items", "shape", "factors", "where", "what"} for row in rows)
    (pinwheel,) = [row for row in rows if row["name"] == "pinwheel"]
    assert (pinwheel["items"], pinwheel["shape"], pinwheel["where"]) == (400, "2", "built in")


@pytest.mark.parametrize("command", [[], ["datasets"], ["fit"], ["runs"], ["runs", "show"], ["runs", "sql"]])
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_every_command_explains_itself(command: list[str], option: str) -> None:
    result = RUNNER.invoke(app, [*command, option])
    assert result.exit_code == 0
    assert "Usage" in result.stdout


def test_the_version_is_printed() -> None:
    result = RUNNER.invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"vaescope {__version__}\n")


def test_help_does_not_load_torch() -> None:
    script = """
import sys
from vaescope.cli import app
try:
    app(["fit", "--help"])
except SystemExit:
    pass
print("torch" in sys.modules, "numpy" in sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == "False False\n"
