"""A script that runs a sweep without the `__main__` guard gets an error that names it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import vaescope

HEAD = """
from vaescope.sweeps.specification import Sweep
from vaescope.sweeps.run import run_sweep
wide = {"name": "mlp", "encoder_widths": [800], "decoder_widths": [800]}
sweep = Sweep("digits", {"steps": 2, "net": wide}, {"latents": 2}, grid={"seed": [0, 1]})
"""
WORK = "print(len(run_sweep(sweep, runs='runs', progress=False, workers=2)), 'rows')"


def said(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(script)
    path = os.pathsep.join(filter(None, [str(Path(vaescope.__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_without_the_guard_it_is_named(tmp_path: Path) -> None:
    done = said(tmp_path, f"{HEAD}{WORK}\n")
    assert done.returncode == 1
    assert "must do so under `if __name__ == '__main__':`" in done.stderr


def test_with_the_guard_it_trains(tmp_path: Path) -> None:
    done = said(tmp_path, f"{HEAD}if __name__ == '__main__':\n    {WORK}\n")
    assert done.stdout == "2 rows\n", done.stderr
