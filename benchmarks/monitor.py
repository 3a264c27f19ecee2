"""Shares of training time: a probe of the latents' types, and rendering a batch of dSprites."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from vaescope.data import open_dataset
from vaescope.models import Architecture
from vaescope.training import Member, Plan, Trainer

ROUNDS, STEPS = 5, 5


def quickest(work: Callable[[], object]) -> float:
    """Seconds of the quickest of several calls, which other work on the machine disturbs least."""
    work()
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


if __name__ == "__main__":
    plan = Plan(10**9, log_every=STEPS, evaluate_every=STEPS, monitor_every=200)
    trainer = Trainer(Architecture(), [Member(10)], plan, open_dataset("dsprites-small"))
    step = quickest(trainer.advance) / STEPS
    probe = quickest(lambda: trainer.monitor.probe(trainer.state))
    print(f"a probe takes {probe / (step * 200):.2%} of the 200 steps between probes")
    sprites = open_dataset("dsprites")
    index = torch.randint(0, len(sprites), (64,), generator=torch.Generator().manual_seed(0))
    print(f"a batch of dsprites takes {quickest(lambda: sprites.batch(index)) / step:.2%} of a training step")
