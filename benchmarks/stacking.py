"""Milliseconds per member-step of small nets on a CPU: one after another beside stacked."""

from __future__ import annotations

import time

import numpy as np
import torch

from vaescope.data import open_dataset
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.training import Member, Plan, Trainer

CHUNK, ROUNDS = 20, 5
NETS = (MLP((), ()), MLP((100,), (100,)), MLP((200, 200), (200, 200)), MLP((400, 400), (400, 400)))


def milliseconds(net: MLP, members: int) -> tuple[int, float]:
    """Parameters of the net, and the quickest of a few rounds per member and step."""
    data = open_dataset(np.random.default_rng(0).random((2000, 20), dtype=np.float32))
    plan = Plan(10**9, log_every=CHUNK, evaluate_every=CHUNK)
    architecture = Architecture(net=net, likelihood={"name": "gaussian", "learned": True})
    trainer = Trainer(architecture, [Member(4, seed=seed) for seed in range(members)], plan, data)
    trainer.advance()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        trainer.advance()
        times.append(time.perf_counter() - start)
    return trainer.ensemble.layout.size, min(times) / CHUNK / members * 1e3


if __name__ == "__main__":
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}")
    for net in NETS:
        (parameters, alone), (_, stacked) = milliseconds(net, 1), milliseconds(net, 16)
        times = f"alone {alone:7.3f} ms   16 stacked {stacked:7.3f} ms"
        print(f"{parameters:8d} parameters   {times}   {alone / stacked:5.1f}x")
