"""Training that is killed at any moment, any number of times, ends with the same result."""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vaescope.runs import FitOptions, Run, fit_many, resume
from vaescope.training import Member
from vaescope.training.checkpoint import load_state, load_tensors

NET = {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]}
# Processes are forked from one that has loaded everything.
FORKED = multiprocessing.get_context("forkserver")


def fit_seeds(folder: Path, steps: int, seeds: str) -> None:
    """Train a model for each seed, with a checkpoint after each row of the history."""
    data = np.random.default_rng(0).normal(size=(200, 8))
    options = FitOptions(
        net=NET,
        steps=steps,
        batch=16,
        log_every=10,
        evaluate_every=100,
        checkpoint_seconds=0,
        progress=False,
        device="cpu",
        runs=folder,
    )
    fit_many(data, [Member(3, seed=int(seed), learning_rate=1e-3) for seed in seeds.split(",")], options)


def _send_and_work(started: Connection, work: Callable[..., None], *given: object) -> None:
    torch.set_num_threads(1)
    started.send(True)
    work(*given)


def start(work: Callable[..., None], *given: object) -> BaseProcess:
    """A process that has loaded everything and begins to work."""
    FORKED.set_forkserver_preload(["vaescope", "vaescope.runs", "vaescope.training", "numpy", "torch"])
    reader, writer = FORKED.Pipe(duplex=False)
    worker = FORKED.Process(target=_send_and_work, args=(writer, work, *given))
    worker.start()
    assert reader.recv()
    return worker


def train(folder: Path, steps: int, seeds: str) -> float:
    """Train undisturbed; returns the duration in seconds."""
    worker, before = start(fit_seeds, folder, steps, seeds), time.monotonic()
    worker.join()
    assert worker.exitcode == 0
    return time.monotonic() - before


def train_killed(folder: Path, steps: int, orders: list[str], delays: list[float]) -> tuple[int, set[int]]:
    """Train with a kill after each delay, then to the end; returns the number of kills and the steps after them.

    Every other delay counts from the worker's first checkpoint, so that kills meet resumed work on a slow machine too.
    """
    hits, reached = 0, set()
    for number, delay in enumerate(delays):
        before = checkpoints(folder)
        worker = start(fit_seeds, folder, steps, orders[number % len(orders)])
        while number % 2 and worker.is_alive() and checkpoints(folder) == before:
            time.sleep(0.002)
        time.sleep(delay)
        hits += worker.is_alive()
        worker.kill()
        worker.join()
        reached |= {load_state(file).step for file in folder.rglob("state.safetensors")}
    train(folder, steps, orders[0])
    return hits, reached


def checkpoints(folder: Path) -> set[tuple[Path, int]]:
    """Every checkpoint with its modification time; files that vanish meanwhile are skipped."""
    found = set()
    for file in folder.rglob("state.safetensors"):
        with contextlib.suppress(FileNotFoundError):
            found.add((file, file.stat().st_mtime_ns))
    return found


def contents(folder: Path) -> dict[str, Any]:
    """Everything about a run that must not depend on interruptions, bit for bit."""
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
    delays = [moments.uniform(0.05, 0.15) * length for _ in range(5)]
    hits, reached = train_killed(tmp_path / "killed", 800, ["0,1,2", "2,0,1"], delays)
    assert hits >= 3
    assert reached
    assert len(contents(tmp_path / "whole")) == 9
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert not list((tmp_path / "killed" / ".ensembles").iterdir())


IMAGES = np.random.default_rng(0).integers(0, 256, (40, 16, 16), dtype=np.uint8)
RESNET = FitOptions(
    net={"name": "resnet", "width": 2, "widest": 4, "smallest": 8},
    batch=8,
    log_every=2,
    evaluate_every=10,
    monitor_every=10,
    checkpoint_seconds=0,
    device="cpu",
    progress=False,
)


def train_resnet(folder: Path) -> None:
    """A residual net with BatchNorm, for 20 steps, then resumed up to 80."""
    (short,) = fit_many(IMAGES, [Member(2, learning_rate=1e-3)], replace(RESNET, steps=20, runs=folder))
    resume(short, 80, data=IMAGES, checkpoint_seconds=0, progress=False, device="cpu")


@pytest.mark.slow
def test_statistics_of_batch_norm_and_longer_training_survive_kills(tmp_path: Path) -> None:
    folder, reached = tmp_path / "killed", []
    for files in (1, 2):  # killed while the run trains, then while the longer run does
        worker = start(train_resnet, folder)
        while worker.is_alive() and len({file for file, _ in checkpoints(folder)}) < files:
            time.sleep(0.002)
        worker.kill()
        worker.join()
        reached.append({load_state(file).step for file in folder.rglob("state.safetensors")})
    assert 0 < max(reached[0]) < 20
    assert 20 <= max(reached[1]) < 80
    train_resnet(folder)
    fit_many(IMAGES, [Member(2, learning_rate=1e-3)], replace(RESNET, steps=80, runs=tmp_path / "whole"))
    whole = contents(tmp_path / "whole")
    assert len(whole) == 3
    assert any(
        "running_var" in name for name in next(iter(found for name, found in whole.items() if "model" in name))[0]
    )
    assert whole.items() <= contents(folder).items()


class Killed(BaseException):
    """Looks like the end of the process to the code under test."""


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


def fit_small(folder: Path, seeds: tuple[int, ...], steps: int = 4) -> Run:
    data = np.random.default_rng(0).normal(size=(60, 6))
    members = [Member(latents, seed=seed, learning_rate=1e-2) for latents, seed in zip((2, 4, 3), seeds, strict=False)]
    runs = fit_many(
        data,
        members,
        FitOptions(net=NET, steps=steps, batch=8, log_every=2, evaluate_every=2, checkpoint_seconds=0, runs=folder),
    )
    return runs[0]


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


def test_resume_recovers_from_a_crash_at_any_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short, data = fit_small(tmp_path / "short", (0,)), np.random.default_rng(0).normal(size=(60, 6))

    def train_longer(folder: Path) -> None:
        if not folder.exists():
            shutil.copytree(short.path, folder / short.id)
        resume(folder / short.id, 8, data=data, checkpoint_seconds=0)

    with monkeypatch.context() as patch:
        count, counting = crash_at(0, False, Path.replace)
        patch.setattr(Path, "replace", counting)
        train_longer(tmp_path / "whole")
    whole, once = contents(tmp_path / "whole"), fit_small(tmp_path / "once", (0,), steps=8)
    assert count[0] >= 7
    assert contents(once.path.parent).items() <= whole.items()
    for call in range(1, count[0] + 1):
        folder = tmp_path / f"crash-{call}"
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", crash_at(call, False, Path.replace)[1])
            with pytest.raises(Killed):
                train_longer(folder)
        train_longer(folder)
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
