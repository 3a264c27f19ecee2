"""A net, a likelihood, an objective, a metric, a gap and a tracker that vaescope finds through entry points."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vaescope.likelihoods import Likelihood
from vaescope.metrics import METRICS, RawScore, Score, evaluate
from vaescope.models import ForwardPass
from vaescope.nets import Net
from vaescope.objectives import OBJECTIVES, Context, ScheduledObjective, Terms
from vaescope.runs import RecordedRow, RunEnd, RunStart, Tracker
from vaescope.sizing import Evidence


class NarrowEncoder(nn.Module):
    """One hidden layer."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.features = width
        self.layer = nn.Linear(inputs, width)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.layer(x.flatten(1)))


class NarrowDecoder(nn.Module):
    """One layer, in the shape of an item."""

    def __init__(self, inputs: int, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape
        self.layer = nn.Linear(inputs, math.prod(shape))

    def forward(self, z: Tensor) -> Tensor:
        return self.layer(z).reshape(len(z), *self.shape)


@dataclass(frozen=True)
class Narrow(Net):
    """One hidden layer in the encoder, none in the decoder."""

    width: int = 4

    def encoder(self, shape: tuple[int, ...]) -> NarrowEncoder:
        """Item -> features."""
        return NarrowEncoder(math.prod(shape), self.width)

    def decoder(self, inputs: int, shape: tuple[int, ...]) -> NarrowDecoder:
        """Code -> item."""
        return NarrowDecoder(inputs, shape)


@dataclass(frozen=True)
class CauchyDistribution:
    """Independent Cauchy distributions around `mean`; the variance stands for their squared scale."""

    mean: Tensor
    scale: float

    @property
    def variance(self) -> Tensor:
        """The squared scale."""
        return torch.full_like(self.mean, self.scale**2)

    def sample(self, noise: Tensor) -> Tensor:
        """A draw from standard normal noise."""
        return self.mean + self.scale * torch.tan(math.pi * (torch.special.ndtr(noise) - 0.5))

    def log_prob(self, x: Tensor) -> Tensor:
        """log p(x|z), summed over the item."""
        return -(math.pi * self.scale * (1 + ((x - self.mean) / self.scale) ** 2)).log().flatten(1).sum(1)


class CauchyLikelihood(nn.Module):
    """Decoder output -> distribution."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, output: Tensor) -> CauchyDistribution:
        return CauchyDistribution(output, self.scale)


@dataclass(frozen=True)
class Cauchy(Likelihood):
    """Heavy tails."""

    scale: float = 0.5

    def module(self, shape: tuple[int, ...]) -> CauchyLikelihood:
        """Decoder output -> distribution."""
        return CauchyLikelihood(self.scale)


@OBJECTIVES.register("squared_rate", summary="reconstruction + weight rate^2", source="the example")
@dataclass(frozen=True)
class SquaredRate(ScheduledObjective):
    """Large rates cost more than in proportion."""

    weight: float = 0.1

    def terms(self, x: Tensor, result: ForwardPass, context: Context) -> Terms:
        """The named terms of each example."""
        values = {"reconstruction": self.reconstruction(x, result), "rate": self.rate(result, context) ** 2}
        return Terms(values, {"reconstruction": 1.0, "rate": self.weight})


@METRICS.register("best_correlation", summary="does one latent correlate with each factor?", factors=1)
def best_correlation(codes: Any, factors: Any = None, **options: Any) -> Score:
    """The largest absolute correlation of a latent with a factor, averaged over factors."""

    def measured(data: Any, seed: int) -> RawScore:
        latents = data.codes.shape[1]
        table = np.abs(np.corrcoef(data.codes.T, data.values.T))[:latents, latents:]
        return RawScore(float(np.nanmax(table, 0).mean()), matrix=table)

    return evaluate("best_correlation", "Pearson correlation", measured, codes, factors, **options)


@dataclass(frozen=True)
class Quiet:
    """The number of latents whose means hardly vary."""

    threshold: float = 0.5
    variance: float = 0.05

    def __call__(self, evidence: Evidence) -> float:
        return float((evidence.codes.mean.var(0) < self.variance).sum())


@dataclass(frozen=True)
class Lines(Tracker):
    """One line for each row, in a file next to the run."""

    def start(self, run: RunStart) -> LinesOfRun:
        """A session that appends to the file."""
        return LinesOfRun(run.path / "lines.txt")


@dataclass(frozen=True)
class LinesOfRun:
    """The file of one run."""

    file: Path

    def log(self, row: RecordedRow) -> None:
        """Append the numbers of a row."""
        self._append(f"{row.split} {row.step} {row.numbers}")

    def finish(self, end: RunEnd) -> None:
        """Append how the run ended."""
        self._append(f"{end.status} {end.step}")

    def _append(self, line: str) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
