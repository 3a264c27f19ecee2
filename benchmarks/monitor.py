"""Shares of training time: a probe of the types of latents, and rendering a batch of dSprites."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from recorded import add_json, save

from vaescope.data import open_dataset
from vaescope.models import Architecture
from vaescope.training import Member, Plan, Trainer

ROUNDS, STEPS, MONITOR_EVERY = 5, 50, 200


def quickest(work: Callable[[], object], device: str) -> float:
    """Seconds of the quickest of several calls, which other work on the machine disturbs least."""
    work()
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--precision", default="float32")
    add_json(parser)
    options = parser.parse_args()
    plan = Plan(10**9, precision=options.precision, log_every=STEPS, evaluate_every=STEPS, monitor_every=MONITOR_EVERY)
    members = [Member(10, seed=seed) for seed in range(options.members)]
    trainer = Trainer(Architecture(), members, plan, open_dataset("dsprites-small"), None, options.device)
    step = quickest(trainer.advance, options.device) / STEPS
    sprites = open_dataset("dsprites").to(options.device)
    index = torch.randint(0, len(sprites), (64,), generator=torch.Generator().manual_seed(0)).to(options.device)
    probe = quickest(lambda: trainer.monitor.probe(trainer.state), options.device)
    batch = quickest(lambda: sprites.batch(index), options.device)
    rows = [
        {"what": "a probe", "milliseconds": 1e3 * probe, "percent": 100 * probe / (step * MONITOR_EVERY)},
        {"what": "rendering a batch", "milliseconds": 1e3 * batch, "percent": 100 * batch / step},
    ]
    print(*rows, sep="\n")
    notes = [f"A probe in percent of the {MONITOR_EVERY} steps between probes, a batch in percent of a step."]
    title = "Probes of the types of latents"
    save(options, __file__, title, {"shares of training time": rows}, device=options.device, notes=notes)


if __name__ == "__main__":
    main()
