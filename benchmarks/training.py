"""Milliseconds per model-step of the convolutional VAE on 64 x 64 images, batch 64: ours beside the plain loop.

All rows of a table come from one run on one machine, interleaved; compare ratios, not absolute times.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from plain import BATCH, LATENTS, plain_loop
from recorded import Row, add_json, machine, save

from vaescope.data import open_dataset
from vaescope.models import Architecture
from vaescope.training import Member, Plan, Trainer

CHUNK = 50


def ours(data_name: str, members: int, precision: str, device: str, chunk: int = CHUNK) -> Callable[[int], float]:
    """A function that trains that many steps of `members` models and gives the seconds per step of all."""
    plan = Plan(10**9, BATCH, precision=precision, log_every=chunk, evaluate_every=chunk)
    every = [Member(LATENTS, seed=seed) for seed in range(members)]
    trainer = Trainer(Architecture(), every, plan, open_dataset(data_name), None, device)

    def run(steps: int) -> float:
        start = time.perf_counter()
        for _ in range(-(-steps // chunk)):
            trainer.advance()
        if device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - start) / (-(-steps // chunk) * chunk)

    return run


def interleaved(runs: dict[str, Callable[[int], float]], steps: int, rounds: int) -> dict[str, float]:
    """The median over rounds of each run's milliseconds per step, the runs taking turns."""
    for run in runs.values():
        run(steps)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(run(steps) * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def contender(name: str) -> Callable[[int], float]:
    """What a worker process trains on the CPU."""
    if name == "vaescope":
        return ours("dsprites-small", 1, "float32", "cpu", chunk=10)
    images = open_dataset("dsprites-small").batch(torch.arange(2048))
    return plain_loop(images, "cpu", channels_last=name == "plain loop, channels_last")


def worker(command: list[str]) -> Callable[[int], float]:
    """A contender in a process of its own: steps in on stdin, seconds per step out on stdout."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(steps: int) -> float:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{steps}\n")
        process.stdin.flush()
        return float(process.stdout.readline())

    return run


def on_cpu(peer: str | None, steps: int, rounds: int) -> list[Row]:
    """Milliseconds per step, and the ratio to ours; every contender has a process of its own."""
    names = ("vaescope", "plain loop", "plain loop, channels_last")
    runs = {name: worker([sys.executable, __file__, "--worker", name]) for name in names}
    if peer:
        runs["pythae"] = worker([peer, str(Path(__file__).parent / "peer_pythae.py")])
    times = interleaved(runs, steps, rounds)
    return [
        {"loop": name, "milliseconds per model-step": value, "ratio": value / times["vaescope"]}
        for name, value in times.items()
    ]


def on_gpu() -> list[Row]:
    """Milliseconds per model-step, and the ratio of the plain loop to it."""
    images = open_dataset("dsprites").batch(torch.randperm(737280)[:8192])
    plain = plain_loop(images, "cuda", channels_last=False)
    plain(50)
    reference = statistics.median(plain(100) for _ in range(5)) * 1e3
    rows: list[Row] = [
        {"loop": "plain DataLoader + eager loop", "milliseconds per model-step": reference, "ratio": 1.0}
    ]
    for members, precision in (
        (1, "tf32"),
        (1, "bfloat16"),
        (8, "bfloat16"),
        (32, "tf32"),
        (32, "bfloat16"),
        (64, "bfloat16"),
    ):
        start = time.perf_counter()
        run = ours("dsprites", members, precision, "cuda")
        run(CHUNK)
        first = time.perf_counter() - start
        value = statistics.median(run(2 * CHUNK) for _ in range(5)) * 1e3 / members
        row = {"loop": f"{members} member{'s' * (members > 1)}, {precision}", "milliseconds per model-step": value}
        rows.append({**row, "ratio": reference / value, f"seconds of the first {CHUNK} steps": first})
        print(rows[-1], flush=True)
        del run
        torch.cuda.empty_cache()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="Python of an environment with pythae installed")
    parser.add_argument("--steps", type=int, default=20, help="steps of a contender in each round, on a CPU")
    parser.add_argument("--rounds", type=int, default=9, help="rounds on a CPU")
    add_json(parser)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        run = contender(arguments.worker)
        for line in sys.stdin:
            print(run(int(line)), flush=True)
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(machine(device))
    rows = on_gpu() if device == "cuda" else on_cpu(arguments.peer, arguments.steps, arguments.rounds)
    print(*rows, sep="\n")
    notes = [
        "Convolutional VAE (kernels 4, 4, 2, 2), images of 64 x 64, batch 64, 10 latents, Adam. Every number includes "
        "the data: rendered on demand for ours, a DataLoader for the others. Steps alone, without evaluation or probes."
    ]
    title = f"Training step on a {'GPU, compiled' if device == 'cuda' else 'CPU'}"
    save(arguments, __file__, title, {"milliseconds per model-step": rows}, device=device, notes=notes)


if __name__ == "__main__":
    main()
