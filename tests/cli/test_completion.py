"""Shell completion: names of data sets and parts, ids of runs, without loading torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from vaescope import cli
from vaescope.cli.completion import of_kind, of_names, several

RUNNER = CliRunner()


def completed(*words: str, folder: Path | None = None) -> list[str]:
    """What bash would offer in place of the last word."""
    asked = {"_VAESCOPE_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[:] = ['vaescope']; from vaescope.cli import main; main()"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    return done.stdout.split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    for place in ("runs", "demo"):
        for name in ("3f2a", "3f77", "b001"):
            (folder / place / f"{name}-{place}").mkdir(parents=True)
            (folder / place / f"{name}-{place}" / "run.json").write_text(json.dumps({}))
    (folder / "runs" / "fondue-3f").mkdir()
    return folder


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("fit", "dsprites-s"), ["dsprites-scream", "dsprites-small"]),
        (("fit", "digits", "--net", "re"), ["resnet"]),
        (("fit", "digits", "--objective", "beta"), ["beta", "beta_tc"]),
        (("diagnose", "x", "--metrics", "mig,dc"), ["mig,dci"]),
        (("compare", "x", "--measure", ""), ["cka", "procrustes"]),
        (("fond",), ["fondue"]),
        (("diagnose", "3f"), ["3f2a-runs", "3f77-runs"]),
        (("report", "--runs", "demo", "3f2"), ["3f2a-demo"]),
        (("report", "3f2a-runs", "3f"), ["3f77-runs"]),
        (("runs", "show", "b"), ["b001-runs"]),
        (("runs", "delete", "--runs", "demo", "b001-demo", ""), ["3f2a-demo", "3f77-demo"]),
    ],
    ids=lambda words: " ".join(words),
)
def test_the_shell_completes(words: tuple[str, ...], expected: list[str], folder: Path) -> None:
    assert completed("vaescope", *words, folder=folder) == expected


def test_the_last_of_several_values_is_completed_with_its_summary() -> None:
    (found,) = several(of_kind("metric"))("mig,dci,udr")[:1] or [("mig,dci,udr", "")]
    assert found[0].startswith("mig,dci,")
    assert of_names("rounds", "bisection")("b") == [("bisection", "")]


def test_completion_does_not_load_torch(folder: Path) -> None:
    script = (
        "import sys; from types import SimpleNamespace as S; from vaescope import cli; "
        "from vaescope.cli.completion import of_kind, run_ids; of_kind('data')(''); "
        "print(run_ids(S(params={'runs': 'demo'}), '3'), 'torch' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=folder)
    assert done.stdout == "['3f2a-demo', '3f77-demo'] False False\n"


def test_completion_can_be_installed() -> None:
    shown = RUNNER.invoke(cli.app, ["--help"]).output
    assert "--install-completion" in shown
    assert "--show-completion" in shown
