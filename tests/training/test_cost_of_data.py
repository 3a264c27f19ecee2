"""Rendering must not be what training waits for."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from vaescope.data import open_dataset
from vaescope.models import Architecture
from vaescope.training import Member, Plan, Trainer


def quickest(work: Callable[[], object], times: int) -> float:
    """Seconds of the quickest of several calls, which other work on the machine disturbs least."""
    work()
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def test_a_batch_of_dsprites_costs_less_than_a_tenth_of_a_training_step() -> None:
    data = open_dataset("dsprites")
    index = torch.randint(0, len(data), (64,), generator=torch.Generator().manual_seed(0))
    trainer = Trainer(
        Architecture(), [Member(10)], Plan(100, log_every=1, evaluate_every=1), open_dataset("dsprites-small")
    )
    assert quickest(lambda: data.batch(index), 10) < quickest(trainer.advance, 5) / 10
