"""Programs of a training step on a GPU, in one process: the first step, the later steps, and the kernels they launch.

A case is the number of members, 'captured' or 'compiled', and the precision. `first step` is the time to trace, compile
and capture the program in a process that has already imported what it needs, and trained the cases before.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence

import torch
from recorded import Row, add_json, machine, save

from vaescope.data import open_dataset
from vaescope.data.dataset import Dataset
from vaescope.models import Architecture
from vaescope.training import Member, Plan, Trainer

CASES = ("1,captured", "8,captured", "32,captured", "1,compiled", "8,compiled", "32,compiled")
LATENTS, BATCH = 10, 64
MAX_KERNEL_NAME = 60  # characters


def trainer_of(case: str, data: Dataset, options: argparse.Namespace) -> Trainer:
    """The trainer of a case."""
    members, program = case.split(",")
    plan = Plan(
        10**9,
        BATCH,
        precision=options.precision,
        log_every=options.chunk,
        evaluate_every=options.chunk,
        monitor_every=0,
    )
    every = [Member(LATENTS, seed=seed) for seed in range(int(members))]
    compiled = program == "compiled"
    return Trainer(Architecture(net=options.net), every, plan, data, None, options.device, compile=compiled)


def timed(trainer: Trainer, options: argparse.Namespace) -> Row:
    """Seconds of the first step, and milliseconds of a step of one model afterwards."""

    def seconds(until: int | None = None) -> float:
        began = time.perf_counter()
        trainer.advance(until)
        if options.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    first = seconds(1)
    seconds()
    rounds = [seconds() / options.chunk / len(trainer.members) * 1e3 for _ in range(options.rounds)]
    return {"first step, seconds": first, "milliseconds per model-step": statistics.median(rounds)}


def kernels(trainer: Trainer, options: argparse.Namespace) -> list[Row]:
    """The kernels that take most of the time of a step, in microseconds of a model-step."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as found:
        trainer.advance()
        torch.cuda.synchronize()
    steps = options.chunk * len(trainer.members)
    rows = [
        {"kernel": one.key[:MAX_KERNEL_NAME], "launches": one.count, "microseconds": one.device_time_total / steps}
        for one in found.key_averages()
    ]
    return sorted(rows, key=lambda row: -float(row["microseconds"]))[: options.kernels]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--data", default="dsprites")
    parser.add_argument("--net", default="conv")
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--chunk", type=int, default=50, help="steps of a round")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--kernels", type=int, default=0, help="show this many kernels of each case")
    add_json(parser)
    options = parser.parse_args(arguments)
    data = open_dataset(options.data)
    torch.ones(1, device=options.device)
    tables: dict[str, list[Row]] = {"programs": []}
    for case in options.cases:
        members, program = case.split(",")
        trainer = trainer_of(case, data, options)
        tables["programs"].append({"members": int(members), "program": program, **timed(trainer, options)})
        print(tables["programs"][-1], flush=True)
        if options.kernels:
            tables[f"kernels of {members} members, {program}"] = kernels(trainer, options)
    print(machine(options.device))
    title = f"Programs of a training step, {options.net} in {options.precision}"
    save(options, __file__, title, tables, device=options.device)


if __name__ == "__main__":
    sys.exit(main())
