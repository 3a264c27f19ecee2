"""Training that is killed, at any moment and any number of times, ends as if nothing had happened."""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vaescope.runs import FitOptions, fit_many
from vaescope.training import Member
from vaescope.training.checkpoint import load_state, load_tensors

NET = {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]}
WORKER = """
import sys
import numpy as np
from vaescope.runs import FitOptions, fit_many
from vaescope.training import Member
folder, steps, seeds = sys.argv[1], int(sys.argv[2]), [int(seed) for seed in sys.argv[3].split(",")]
data = np.random.default_rng(0).normal(size=(200, 8))
net = {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]}
print("started", flush=True)
options = FitOptions(net=net, steps=steps, batch=16, log_every=10, evaluate_every=100, checkpoint_seconds=0,
                     progress=False, device="cpu", runs=folder)
fit_many(data, [Member(3, seed=seed, learning_rate=1e-3) for seed in seeds], options)
"""


def start(folder: Path, steps: int, seeds: str) -> subprocess.Popen[str]:
    """A process that has loaded everything and begins to train."""
    command = [sys.executable, "-c", WORKER, str(folder), str(steps), seeds]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "started\n"
    return worker


def train(folder: Path, steps: int, seeds: str) -> float:
    """Train without being disturbed; the seconds it took."""
    worker, before = start(folder, steps, seeds), time.monotonic()
    worker.communicate()
    assert worker.returncode == 0
    return time.monotonic() - before


def train_killed(folder: Path, steps: int, orders: list[str], delays: list[float]) -> tuple[int, set[int]]:
    """Train with a kill after each delay, then to the end: kills that hit, and the steps they left behind.

    Every other delay counts from the worker's first checkpoint, so that kills meet resumed work on a slow machine too.
    """
    hits, reached = 0, set()
    for number, delay in enumerate(delays):
        before = checkpoints(folder)
        worker = start(folder, steps, orders[number % len(orders)])
        while number % 2 and worker.poll() is None and checkpoints(folder) == before:
            time.sleep(0.002)
        time.sleep(delay)
        hits += worker.poll() is None
        worker.kill()
        worker.communicate()
        reached |= {load_state(file).step for file in folder.rglob("state.safetensors")}
    train(folder, steps, orders[0])
    return hits, reached


def checkpoints(folder: Path) -> set[tuple[Path, int]]:
    """Every checkpoint with the time of its last writing, as far as they stand still while one looks."""
    found = set()
    for file in folder.rglob("state.safetensors"):
        with contextlib.suppress(FileNotFoundError):
            found.add((file, file.stat().st_mtime_ns))
    return found


def contents(folder: Path) -> dict[str, Any]:
    """All of every run that must not depend on how it came about, to the bit."""
    found: dict[str, Any] = {}
    for run in sorted(folder.glob("[!.]*")):
        found[f"{run.name}/history"] = (run / "history.jsonl").read_bytes()
        for name in ("model", "state"):
            tensors, notes = load_tensors(run / f"{name}.safetensors")
            bits = {key: (str(tensor.dtype), tensor.numpy().tobytes()) for key, tensor in tensors.items()}
            found[f"{run.name}/{name}"] = (bits, notes)
    return found


@pytest.mark.slow
def test_ten_kills_change_neither_weights_nor_state_nor_history(tmp_path: Path) -> None:
    length = train(tmp_path / "whole", 2400, "0")
    moments = random.Random(0)
    delays = [moments.uniform(0, 2 * length / 12) for _ in range(10)]
    hits, reached = train_killed(tmp_path / "killed", 2400, ["0"], delays)
    assert hits >= 5
    assert len(reached) >= 2
    assert len(contents(tmp_path / "whole")) == 3
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert not list((tmp_path / "killed").glob("*/.*.part"))


@pytest.mark.slow
def test_kills_of_an_ensemble_change_nothing_in_any_order_of_members(tmp_path: Path) -> None:
    length = train(tmp_path / "whole", 800, "0,1,2")
    moments = random.Random(1)
    delays = [moments.uniform(0.05, 0.3) * length for _ in range(5)]
    hits, reached = train_killed(tmp_path / "killed", 800, ["0,1,2", "2,0,1"], delays)
    assert hits >= 3
    assert reached
    assert len(contents(tmp_path / "whole")) == 9
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert not list((tmp_path / "killed" / ".ensembles").iterdir())


class Killed(BaseException):
    """Ends a process at once, as far as the code under it can tell."""


def crash_at(call: int, done_first: bool, function: Callable[..., Any]) -> tuple[list[int], Callable[..., Any]]:
    """The function, which dies at its `call`-th call, before or after doing its work; and the count of calls."""
    count = [0]

    def wrapped(*arguments: Any, **options: Any) -> Any:
        count[0] += 1
        if count[0] == call and not done_first:
            raise Killed
        result = function(*arguments, **options)
        if count[0] == call:
            raise Killed
        return result

    return count, wrapped


def fit_small(folder: Path, seeds: tuple[int, ...]) -> None:
    data = np.random.default_rng(0).normal(size=(60, 6))
    members = [Member(latents, seed=seed, learning_rate=1e-2) for latents, seed in zip((2, 4, 3), seeds, strict=False)]
    fit_many(
        data,
        members,
        FitOptions(net=NET, steps=4, batch=8, log_every=2, evaluate_every=2, checkpoint_seconds=0, runs=folder),
    )


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)], ids=["alone", "stacked"])
@pytest.mark.parametrize("done_first", [False, True], ids=["before", "after"])
def test_the_same_call_recovers_from_a_crash_at_any_write(
    seeds: tuple[int, ...], done_first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        count, counting = crash_at(0, done_first, Path.replace)
        patch.setattr(Path, "replace", counting)
        fit_small(tmp_path / "whole", seeds)
    whole = contents(tmp_path / "whole")
    assert count[0] >= 7
    for call in range(1, count[0] + 1):
        folder = tmp_path / f"crash-{call}"
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", crash_at(call, done_first, Path.replace)[1])
            with pytest.raises(Killed):
                fit_small(folder, seeds)
        fit_small(folder, seeds)
        assert contents(folder) == whole, f"after a crash at write {call} of {count[0]}"


@pytest.mark.parametrize("done_first", [False, True], ids=["before", "after"])
def test_the_same_call_recovers_from_a_crash_while_the_ensemble_is_deleted(
    done_first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit_small(tmp_path / "whole", (0, 1, 2))
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", crash_at(1, done_first, shutil.rmtree)[1])
        with pytest.raises(Killed):
            fit_small(tmp_path / "crash", (0, 1, 2))
    fit_small(tmp_path / "crash", (0, 1, 2))
    assert not list((tmp_path / "crash" / ".ensembles").iterdir())
    assert contents(tmp_path / "crash") == contents(tmp_path / "whole")
