"""An identifiable VAE with 30 latents on dSprites: the signatures of active and passive latents (Bonheme, section 5.3).

The thesis' net (Table A.2), batch 64, Adam with rate 1e-4, the factors as what is told, the prior's mean fixed at 0 or
learned. Published, for one model of each and as histograms: a passive latent has means near 0 and the variance of its
prior (proposition 5.2.2), an active one a variance near 0 and a prior as wide as its squared mean (proposition 5.2.1).
"""

from __future__ import annotations

import argparse
import time
import warnings
from statistics import fmean, median

warnings.filterwarnings("ignore")

import torch

from vaescope.codes import Representation
from vaescope.data import open_dataset
from vaescope.encoding import encode
from vaescope.models import Architecture
from vaescope.priors import ConditionalGaussian
from vaescope.regime import variable_types
from vaescope.training import Member, Plan, Trainer

LATENTS, FACTORS, RATE = 30, 5, 1e-4
KINDS = ("active", "mixed", "passive")
BEGAN = time.monotonic()


def say(text: str) -> None:
    print(f"[{time.monotonic() - BEGAN:6.1f} s] {text}", flush=True)


def signature(codes: Representation, latent: int) -> dict[str, float]:
    """Means over the items: squared mean, variance, the prior's variance, and how the first follows the last."""
    assert codes.prior is not None
    mean, variance = codes.mean[:, latent] - codes.prior[0].expand_as(codes.mean)[:, latent], codes.variance[:, latent]
    prior = codes.prior[1][:, latent]
    return {
        "mean^2": float(mean.square().mean()),
        "variance": float(variance.mean()),
        "prior variance": float(prior.mean()),
        "variance / prior": float((variance / prior).median()),
        "correlation": float(torch.corrcoef(torch.stack([prior, mean.square()]))[0, 1]),
    }


def train(learned: bool, options: argparse.Namespace, device: str) -> Trainer:
    architecture = Architecture("identifiable", "conv", prior=ConditionalGaussian(learned), condition=FACTORS)
    members = [Member(LATENTS, learning_rate=RATE, seed=seed) for seed in range(options.seeds)]
    every = max(1, options.steps // 10)
    plan = Plan(options.steps, 64, precision=options.precision, log_every=every, evaluate_every=options.steps)
    trainer = Trainer(architecture, members, plan, open_dataset(options.data), None, device)
    while not trainer.finished:
        rows = [row.values for row in trainer.advance() if row.split == "train"]
        terms = ", ".join(f"{row['reconstruction']:.1f} + {row['rate']:.2f}" for row in rows)
        say(f"learned mean {learned}, step {trainer.state.step}: {terms}")
    return trainer


def report(learned: bool, trainer: Trainer, options: argparse.Namespace) -> list[str]:
    """One row for each type: how many latents, and the median of their signatures."""
    probe = open_dataset(options.data).draw(10_000)
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    counts = []
    for place in range(len(trainer.members)):
        codes = encode(trainer.model(place), probe, device=trainer.device, progress=False)
        types = variable_types(codes)
        counts.append(types.counts)
        say(f"learned mean {learned}, seed {place}: {types.summary()}")
        for latent, kind in enumerate(types.types):
            found[kind].append(signature(codes, latent))
    rows = []
    for kind, own in found.items():
        number = fmean(count[kind] for count in counts)
        numbers = [f"{median(one[name] for one in own):.3g}" for name in own[0]] if own else [""] * 5
        rows.append(f"| {'learned' if learned else '0'} | {kind} | {number:.1f} | {' | '.join(numbers)} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="dsprites")
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--precision", default="bfloat16")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = []
    for learned in (False, True):
        rows += report(learned, train(learned, options, device), options)
    head = "| prior's mean | type | latents | mean^2 | variance | prior variance | variance / prior | correlation |"
    print(f"\n{options.steps} steps, {options.seeds} seeds; medians over latents\n\n{head}\n{'|---' * 8}|", flush=True)
    print("\n".join(rows), flush=True)


if __name__ == "__main__":
    main()
