"""Commands that are killed or run out of space lose nothing; repeated, they end with the same numbers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest
from corpus import STORE
from kills import (
    COMMANDS,
    PREPARED,
    UNDISTURBED,
    check_disturbed,
    contents,
    execute,
    numbers,
    outputs,
    reference,
    wrong_after,
)

pytestmark = pytest.mark.usefixtures("attacked_folder")

# The first seeds of each command; `make attack` has more.
TIMES = {
    "fit": 2,
    "fondue": 2,
    "report": 2,
    "prune": 2,
    "runs": 3,
    "delete": 2,
    "sweep": 1,
    "resume": 1,
    "elbow": 1,
    "compare": 0,
    "export": 0,
    "reproduce": 0,
}


@pytest.mark.parametrize(("command", "seed"), [(name, seed) for name in COMMANDS for seed in range(TIMES[name])])
def test_a_disturbed_command_loses_nothing_and_gives_equal_results_when_repeated(command: str, seed: int) -> None:
    assert check_disturbed(command, Random(f"disturbed-{command}:{seed}")) is None


@pytest.mark.parametrize("command", ["fit", "runs"])
def test_a_full_disk_leaves_everything_whole_and_the_same_command_then_finishes(command: str, tmp_path: Path) -> None:
    _, expected, files = reference(command)
    disk = tmp_path / "work"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", disk], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("only root may mount a disk to fill")
    try:
        shutil.copytree(PREPARED, disk, dirs_exist_ok=True)
        before, old = contents(disk / STORE), outputs(command, disk)
        space = os.statvfs(disk)
        (disk / "filler").write_bytes(bytes(space.f_bavail * space.f_bsize))
        ended = execute(command, disk, UNDISTURBED)
        assert ended.code == 2, ended.printed
        assert wrong_after(command, ended, disk, old, files, before) is None
        (disk / "filler").unlink()
        assert execute(command, disk, UNDISTURBED).code == 0
        assert numbers(disk) == expected
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
