"""Active, mixed and passive latents of VAE and VGON on MNIST as beta grows, as in Clapham and Grzes, figures 4 and 5.

Published: latents go from active to passive as beta grows, in both models alike; on MNIST, VGON has far fewer passive
ones than the VAE until very large beta, where both have collapsed. All betas and seeds of a model are one ensemble.
The paper names neither latents, rate, batch nor initial weights; these begin by PyTorch's scheme, as in the code of
VGON's authors.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from statistics import fmean

warnings.filterwarnings("ignore")

import torch

from vaescope.data import open_dataset
from vaescope.encoding import encode
from vaescope.errors import DataError, NonFiniteError
from vaescope.models import Architecture
from vaescope.objectives import Beta
from vaescope.regime import Collapse, collapse, point_of_total_collapse
from vaescope.training import Member, Plan, Trainer

BETAS = (0.5, 1.0, 5.0, 10.0, 20.0, 25.0, 30.0)
TYPES = ("active", "mixed", "passive")
BATCH = 64
BEGAN = time.monotonic()


def say(text: str) -> None:
    print(f"[{time.monotonic() - BEGAN:6.1f} s] {text}", flush=True)


def by_beta(members: Sequence[Member], values: Sequence[float]) -> dict[float, float]:
    """The mean over the seeds of each beta that is there."""
    seeds: dict[float, list[float]] = {}
    for member, value in zip(members, values, strict=True):
        seeds.setdefault(member.objective.beta, []).append(value)
    return {beta: fmean(own) for beta, own in seeds.items()}


def train(model: str, options: argparse.Namespace, device: str) -> Trainer:
    """The ensemble after its last step, or after the last good one of the member that broke first."""
    members = [
        Member(options.latents, Beta(beta), options.rate, seed) for beta in BETAS for seed in range(options.seeds)
    ]
    plan = Plan(
        options.steps,
        BATCH,
        precision=options.precision,
        log_every=options.log_every,
        evaluate_every=options.log_every,
        monitor_every=0,
    )
    architecture = Architecture(model, options.net, initialisation=options.initialisation)
    trainer = Trainer(architecture, members, plan, open_dataset("mnist"), None, device)
    while not trainer.finished:
        before, began = trainer.state.step, time.monotonic()
        try:
            rows = trainer.advance()
        except NonFiniteError as error:
            say(f"{model} stopped, and is read at step {trainer.state.step}: {error}")
            break
        speed = (time.monotonic() - began) / (trainer.state.step - before) / len(members)
        rates = by_beta(members, [row.values["rate"] for row in rows])
        losses = by_beta(members, [row.values["reconstruction"] for row in rows])
        terms = ", ".join(f"{beta:g}: {losses[beta]:.0f} + {rates[beta]:.2f}" for beta in BETAS)
        say(f"{model}, step {trainer.state.step}, {1e3 * speed:.3f} ms per model-step; {terms}")
    return trainer


def read(model: str, trainer: Trainer, items: int, device: str) -> list[tuple[Member, Collapse]]:
    """What became of the latents of each member, on test images; one whose codes overflow is named and left out."""
    held_out = open_dataset("mnist", part="test").draw(items)
    found = []
    for place, member in enumerate(trainer.members):
        who = f"{model}, beta {member.objective.beta:g}, seed {member.seed}"
        try:
            one = collapse(encode(trainer.model(place), held_out, device=device, progress=False))
        except DataError as error:
            say(f"{who} is left out: {error}")
            continue
        found.append((member, one))
        say(f"{who}: {one.types.summary()}, rate {one.rate:.2f} nats")
    return found


def report(model: str, found: list[tuple[Member, Collapse]]) -> list[str]:
    """The rows of the table; the verdicts are said."""
    if not found:
        return []
    members = [member for member, _ in found]
    counts = {kind: by_beta(members, [one.types.counts[kind] for _, one in found]) for kind in TYPES}
    rates = by_beta(members, [one.rate for _, one in found])
    passive = [one.types.counts["passive"] for _, one in found]
    betas = [member.objective.beta for member in members]
    say(f"{model}: {point_of_total_collapse(betas, passive, members[0].latents).summary()}")
    means = list(counts["passive"].values())
    say(f"{model}: passive latents {'never fall' if means == sorted(means) else 'fall somewhere'} as beta grows")
    return [
        f"| {model} | {beta:g} | {' | '.join(f'{counts[kind][beta]:.1f}' for kind in TYPES)} | {rate:.2f} |"
        for beta, rate in rates.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["vae", "vgon"])
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--latents", type=int, default=10)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--net", default="conv")
    parser.add_argument("--initialisation", default="torch")
    parser.add_argument("--precision", default="tf32")
    parser.add_argument("--log-every", type=int, default=500)
    parser.add_argument("--items", type=int, default=10_000, help="test images that are encoded")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = []
    for model in options.models:
        trainer = train(model, options, device)
        rows += report(model, read(model, trainer, options.items, device))
    print(f"\n{options.latents} latents, {options.steps} steps, mean over seeds ({options.seeds}), MNIST test images\n")
    print("| model | beta | active | mixed | passive | KL, nats |\n|---|---|---|---|---|---|")
    print("\n".join(rows), flush=True)


if __name__ == "__main__":
    main()
