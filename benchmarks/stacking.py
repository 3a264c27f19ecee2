"""Milliseconds per member-step of small nets on a CPU: one after another beside stacked."""

from __future__ import annotations

import argparse
import time

import numpy as np
from recorded import add_json, save

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_json(parser)
    options = parser.parse_args()
    rows = []
    for net in NETS:
        (parameters, alone), (_, stacked) = milliseconds(net, 1), milliseconds(net, 16)
        rows.append({"parameters": parameters, "alone": alone, "16 stacked": stacked, "ratio": alone / stacked})
        print(rows[-1], flush=True)
    notes = ["MLP VAEs on vectors of 20 numbers, batch 64."]
    title = "Small nets on a CPU, one after another and stacked"
    save(options, __file__, title, {"milliseconds per member-step": rows}, notes=notes)


if __name__ == "__main__":
    main()
