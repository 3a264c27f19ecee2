"""FONDUE for a plain MLP with batch normalisation, given as a factory, on synthetic data of known dimension.

Items are Gaussian on a subspace with 3, 6 or 10 dimensions, with a little noise around it. Each search starts where it
starts by default, at the estimated intrinsic dimension, with 3 seeds: once with our loop, and once with a loop in plain
PyTorch given as `train`. Every answer should be within 1 of the dimension.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from recorded import Row, add_json, save
from torch import Tensor, nn

from vaescope.sizing import Fondue, fondue
from vaescope.sizing.own_training import TrainingItems

DIMENSIONS, AMBIENT, ITEMS, SEEDS = (3, 6, 10), 24, 1000, 3
WIDTH, BATCH, LEARNING_RATE = 48, 32, 0.01
NOISE = 0.1  # standard deviation around the subspace
SCALE = 4.0  # standard deviation on it


class PlainVAE(nn.Module):
    """One hidden layer with batch normalisation on each side."""

    def __init__(self, latents: int) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(AMBIENT, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU())
        self.mean, self.log_variance = nn.Linear(WIDTH, latents), nn.Linear(WIDTH, latents)
        self.decoder = nn.Sequential(
            nn.Linear(latents, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, AMBIENT)
        )

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.features(x)
        return self.mean(features), self.log_variance(features)

    def decode(self, z: Tensor) -> Tensor:
        found: Tensor = self.decoder(z)
        return found


class PlainLoop:
    """Training in plain PyTorch, with an Adam for each model that later calls continue."""

    def __init__(self) -> None:
        self.optimisers: dict[nn.Module, torch.optim.Optimizer] = {}

    def __call__(self, model: nn.Module, data: TrainingItems, steps: int, seed: int) -> None:
        assert isinstance(model, PlainVAE)
        optimiser = self.optimisers.setdefault(model, torch.optim.Adam(model.parameters(), LEARNING_RATE))
        for _ in range(steps):
            x = data[torch.randint(len(data), (BATCH,))]
            mean, log_variance = model.encode(x)
            z = mean + (log_variance / 2).exp() * torch.randn_like(mean)
            error = (model.decode(z) - x).square().sum(1) / 2
            rate = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1) / 2
            optimiser.zero_grad()
            (error + rate).mean().backward()
            optimiser.step()


def on_a_subspace(dimension: int) -> NDArray[np.float32]:
    """Gaussian items on a random subspace."""
    generator = np.random.default_rng(dimension)
    axes, _ = np.linalg.qr(generator.normal(size=(AMBIENT, AMBIENT)))
    codes = SCALE * generator.normal(size=(ITEMS, dimension))
    around = NOISE * generator.normal(size=(ITEMS, AMBIENT))
    return (codes @ axes[:dimension] + around).astype(np.float32)


def searched(dimension: int, own_loop: bool, period: int, max_periods: int) -> Fondue:
    """The search of all seeds."""
    data, seeds = on_a_subspace(dimension), SEEDS
    if own_loop:
        return fondue(
            data,
            model=PlainVAE,
            train=PlainLoop(),
            seeds=seeds,
            period=period,
            max_periods=max_periods,
            device="cpu",
            runs=None,
        )
    return fondue(
        data,
        model=PlainVAE,
        likelihood={"name": "gaussian", "variance": 1.0},
        batch=BATCH,
        learning_rate=LEARNING_RATE,
        seeds=seeds,
        period=period,
        max_periods=max_periods,
        device="cpu",
        runs=None,
    )


def measure(given: argparse.Namespace) -> list[Row]:
    """Every answer with its gaps."""
    rows: list[Row] = []
    for dimension in DIMENSIONS:
        for own_loop in (False, True):
            began = time.process_time()
            found = searched(dimension, own_loop, given.period, given.max_periods)
            row = {
                "dimension": dimension,
                "loop": "plain PyTorch" if own_loop else "vaescope",
                "answers": found.values,
                "within_1": all(abs(value - dimension) <= 1 for value in found.values),
                "stable": found.stable,
                "start": found.start,
                "periods": [answer.periods for answer in found.answers],
                "models": found.models,
                "cpu_seconds": round(time.process_time() - began, 1),
                "curve": found.curve,
            }
            print({name: value for name, value in row.items() if name != "curve"}, flush=True)
            rows.append(row)
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--period", type=int, default=400, help="steps between answers")
    parser.add_argument("--max-periods", type=int, default=4)
    add_json(parser)
    given = parser.parse_args(arguments)
    found = measure(given)
    answers = [{name: value for name, value in row.items() if name != "curve"} for row in found]
    settings = {"items": ITEMS, "ambient": AMBIENT, "width": WIDTH, "batch": BATCH, "seeds": SEEDS}
    settings |= {"learning_rate": LEARNING_RATE}
    notes = ["A plain MLP with batch normalisation, trained by our loop or by a loop in plain PyTorch."]
    title = "Number of latents of a factory's model"
    save(given, __file__, title, {"answers": answers}, settings=settings, notes=notes, raw=found)


if __name__ == "__main__":
    main()
