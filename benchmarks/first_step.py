"""How soon training starts, and how fast it then runs: compiled or not, in a fresh process or in one that has trained.

Every case runs in a process of its own with a compiler cache of its own, cold the first time and warm the second.
`first step` ends when the first step of the program is done, which is the time to trace, compile and capture it; the
process has initialised the device before, unless it is called fresh. `fit` is a whole `vs.fit` of one model.
"""

from __future__ import annotations

import time

BEGAN = time.perf_counter()

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from recorded import Row, add_json, machine, save

NET_LATENTS, BATCH, ROUNDS = 10, 64, 5


def synchronise(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def start_device(device: str) -> float:
    """The seconds from the start of the process until everything is imported and the device has made a number."""
    import torch

    import vaescope.training  # noqa: F401

    torch.ones(1, device=device).add(1).cpu()
    return time.perf_counter() - BEGAN


def step_times(options: argparse.Namespace, members: int, compiled: bool) -> Row:
    """Seconds to the first step and milliseconds per model-step, of a program for some members."""
    started = start_device(options.device)
    from vaescope.data import open_dataset
    from vaescope.models import Architecture
    from vaescope.training import Member, Plan, Trainer

    data = open_dataset(options.data)
    plan = Plan(
        10**9,
        BATCH,
        precision=options.precision,
        log_every=options.chunk,
        evaluate_every=options.chunk,
        monitor_every=0,
    )
    began = time.perf_counter()
    every = [Member(NET_LATENTS, seed=seed) for seed in range(members)]
    trainer = Trainer(Architecture(net=options.net), every, plan, data, None, options.device, compile=compiled)
    synchronise(options.device)
    prepared = time.perf_counter() - began
    began = time.perf_counter()
    trainer.advance(1)
    synchronise(options.device)
    first, times = time.perf_counter() - began, []
    trainer.advance()
    for _ in range(options.rounds):
        began = time.perf_counter()
        trainer.advance()
        synchronise(options.device)
        times.append((time.perf_counter() - began) / options.chunk / members * 1e3)
    row = {"import and device": started, "trainer": prepared, "first step": first}
    return {**row, "ready": prepared + first, "milliseconds per model-step": statistics.median(times)}


def fit_times(options: argparse.Namespace, compiled: bool | None) -> list[Row]:
    """Seconds of `vs.fit`: first in this process, fresh but for its imports, then with another seed."""
    import vaescope as vs

    imported, rows = time.perf_counter() - BEGAN, []
    settings = {"net": options.net, "precision": options.precision, "device": options.device, "compile": compiled}
    with tempfile.TemporaryDirectory() as runs:
        for seed, process in enumerate(("fresh", "initialised")):
            began = time.perf_counter()
            run = vs.fit(
                options.data, NET_LATENTS, steps=options.steps, seed=seed, runs=runs, progress=False, **settings
            )
            seconds = time.perf_counter() - began
            compilation = run.record.provenance.compilation
            row = {"process": process, "steps": options.steps, "compiled": bool(compilation and compilation.compiled)}
            before = 0.0 if seed else imported
            rows.append({**row, "import": before, "fit": seconds, "all": before + seconds})
    return rows


def plain_times(options: argparse.Namespace) -> Row:
    """Seconds of the plain eager loop with as many steps, from the import of torch on."""
    import torch
    from plain import plain_loop

    from vaescope.data import open_dataset

    data = open_dataset(options.data)
    index = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:8192]
    run = plain_loop(data.batch(index), options.device, channels_last=False)
    imported = time.perf_counter() - BEGAN
    seconds = run(options.steps) * options.steps
    return {"process": "fresh", "steps": options.steps, "import": imported, "fit": seconds, "all": imported + seconds}


def in_process(task: str, given: Sequence[str], cache: Path) -> Row:
    """The answer of a task in a process of its own."""
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"), "TRITON_CACHE_DIR": str(cache / "triton")}
    command = [sys.executable, __file__, *given, "--worker", task]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **caches})
    if done.returncode:
        sys.exit(f"{task} failed:\n{done.stderr[-4000:]}")
    answer: Row = json.loads(done.stdout.splitlines()[-1])
    return answer


def worker(task: str, options: argparse.Namespace) -> object:
    """The numbers of a task: 'step MEMBERS COMPILED', 'fit COMPILED' or 'plain'."""
    kind, *words = task.split()
    if kind == "step":
        return step_times(options, int(words[0]), words[1] == "compiled")
    if kind == "fit":
        return fit_times(options, True if words[0] == "compiled" else None)
    return plain_times(options)


def measured(options: argparse.Namespace, given: Sequence[str]) -> dict[str, list[Row]]:
    """The tables, printed as they come."""
    tables: dict[str, list[Row]] = {"programs, seconds": [], f"{options.steps:,} steps of one model, seconds": []}
    steps, fits = tables.values()
    programs = ["captured", "compiled"] if options.device == "cuda" else ["captured"]
    with tempfile.TemporaryDirectory() as folder:
        for members in options.members:
            for program in programs:
                for cache in ("cold", "warm") if program == "compiled" else ("none",):
                    own = Path(folder) / f"{members}"
                    row = {"members": members, "program": program, "compiler's cache": cache}
                    steps.append({**row, **in_process(f"step {members} {program}", given, own)})
                    print(steps[-1], flush=True)
        for program in ("chosen", "compiled") if options.device == "cuda" else ("chosen",):
            for one in in_process(f"fit {program}", given, Path(folder) / f"fit {program}"):
                fits.append({"loop": f"vs.fit, {program}", **one})
                print(fits[-1], flush=True)
        fits.append({"loop": "plain DataLoader + eager loop", **in_process("plain", given, Path(folder))})
        print(fits[-1], flush=True)
    return tables


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--data", help="default: dsprites on a GPU, dsprites-small on a CPU")
    parser.add_argument("--net", default="conv")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--members", type=int, nargs="+", help="default: 1, 8 and 32 on a GPU, 1 on a CPU")
    parser.add_argument("--steps", type=int, help="steps of vs.fit; default: 5000 on a GPU, 200 on a CPU")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--chunk", type=int, default=50, help="steps of a round; default: 50")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    add_json(parser)
    options = parser.parse_args(arguments)
    on_gpu = options.device == "cuda"
    options.data = options.data or ("dsprites" if on_gpu else "dsprites-small")
    options.members = options.members or ([1, 8, 32] if on_gpu else [1])
    options.steps = options.steps or (5000 if on_gpu else 200)
    if options.worker:
        print(json.dumps(worker(options.worker, options)))
        return
    given = list(sys.argv[1:] if arguments is None else arguments)
    tables = measured(options, given)
    notes = [f"Convolutional VAE, batch {BATCH}, {NET_LATENTS} latents. `chosen` is what the plan chooses."]
    print(machine(options.device))
    save(options, __file__, "First step, and a whole fit of one model", tables, device=options.device, notes=notes)


if __name__ == "__main__":
    main()
