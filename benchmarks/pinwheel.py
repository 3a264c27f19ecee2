"""Figure 3 of Mathieu et al. in numbers: what alpha and beta do to the codes of the pinwheel under a clustered prior.

As in the paper's code: 400 points, one hidden layer of 100 ReLU, four Gaussians of variance .03 as the prior, the
divergence KL(p(z) || q(z)), AMSGrad at 1e-3, 500 epochs of one batch. Different: one learned variance for all outputs
where the code has a softplus scale, a log-variance head in the encoder, Glorot weights. The grid of the figure is not
published; this one holds both of the settings in the code, (alpha, beta) = (0, 1) and (1, 0). All models train as one
ensemble. What is measured does not use the training loss: q(z) is over all points, its densities are PyTorch's.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from statistics import fmean, stdev

warnings.filterwarnings("ignore")

import torch

from vaescope.data import open_dataset
from vaescope.encoding import encode
from vaescope.likelihoods import Gaussian
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.objectives import Decomposition
from vaescope.priors import Mixture
from vaescope.studies.mathieu.pinwheel import MEASURES, VARIANCE, measured
from vaescope.training import AMSGrad, Member, Plan, Trainer

BEGAN = time.monotonic()


def say(text: str) -> None:
    print(f"[{time.monotonic() - BEGAN:6.1f} s] {text}", flush=True)


def trained(options: argparse.Namespace, pairs: list[tuple[float, float]]) -> list[list[dict[str, float]]]:
    """The measures of each pair (alpha, beta), for each seed."""
    data, seeds = open_dataset("pinwheel"), range(options.seeds)
    architecture = Architecture(
        net=MLP((100,), (100,)), prior=Mixture(variances=VARIANCE), likelihood=Gaussian(1.0, learned=True)
    )
    members = [Member(2, Decomposition(*pair, options.divergence), 1e-3, seed) for pair in pairs for seed in seeds]
    chunk = min(100, options.steps)
    plan = Plan(options.steps, options.batch, AMSGrad(), options.precision, chunk, chunk, monitor_every=0)
    trainer = Trainer(architecture, members, plan, data, device=options.device)
    say(f"{len(members)} models, {options.steps} steps of {options.batch} points, on {options.device}")
    while not trainer.finished:
        rows = trainer.advance()
        say(f"step {trainer.state.step}: mean loss {fmean(row.values['loss'] for row in rows):.3f}")
    found: list[list[dict[str, float]]] = []
    for place, (alpha, beta) in enumerate(pairs):
        own = [measured(encode(trainer.model(place * options.seeds + seed), data)) for seed in seeds]
        found.append(own)
        texts = [", ".join(f"{name} {value:.3f}" for name, value in one.items()) for one in own]
        for seed, text in zip(seeds, texts, strict=True):
            say(f"alpha {alpha:g}, beta {beta:g}, seed {seed}: {text}")
    return found


def entry(values: list[float]) -> str:
    return f"{fmean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alphas", type=float, nargs="+", default=[0.0, 0.1, 1.0, 3.0, 8.0])
    parser.add_argument("--betas", type=float, nargs="+", default=[0.0, 0.01, 0.5, 1.0, 1.2, 2.0])
    parser.add_argument("--divergence", choices=["kl", "mmd"], default="kl")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    pairs = list(itertools.product(options.alphas, options.betas))
    found = dict(zip(pairs, trained(options, pairs), strict=True))
    print(f"\n{options.steps} steps of {options.batch}, divergence {options.divergence}, {options.seeds} seeds")
    for name, meaning in MEASURES.items():
        print(f"\n{name}: {meaning}\n\n| | " + " | ".join(f"beta {beta:g}" for beta in options.betas) + " |")
        print("|---" * (len(options.betas) + 1) + "|")
        for alpha in options.alphas:
            cells = [entry([one[name] for one in found[alpha, beta]]) for beta in options.betas]
            print(f"| alpha {alpha:g} | " + " | ".join(cells) + " |")
    say("done")


if __name__ == "__main__":
    main()
