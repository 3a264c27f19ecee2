"""A score with what belongs to it: its parts, its uncertainty, and the scores of nothing and of perfection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

import numpy as np
from jaxtyping import Float

from vaescope.checks import whole_number
from vaescope.metrics.inputs import Labelled, labelled
from vaescope.notebook import NotebookResult

WIDTH = 1.96  # standard errors on each side of a 95% interval


@dataclass(frozen=True)
class Measured:
    """What a metric finds: its score, scores that belong to it by name, one for each factor, a matrix.

    The matrix has a row for each latent and a column for each factor.
    """

    score: float
    parts: Mapping[str, float] = field(default_factory=dict)
    by_factor: tuple[float | None, ...] | None = None
    matrix: Float[np.ndarray, "latents factors"] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Score(NotebookResult):
    """A score, how it was estimated, and how to read it.

    Attributes:
        metric: The name of the metric.
        score: The number.
        estimator: What was computed, in a few words.
        parts: Further scores of the same metric, by name.
        by_factor: The score of each factor, where the metric has one.
        matrix: One row for each latent, one column for each factor, where the metric has it.
        factors: The names of the factors.
        latents: The places of the latents that were looked at.
        interval: About 95% of such scores of other items lie here; None where it was not asked for, except for means
            over items, whose error is known without asking.
        random, perfect: The scores of codes that are noise and of codes that are the factors; None unless asked for.
    """

    metric: str
    score: float
    estimator: str
    parts: Mapping[str, float] = field(default_factory=dict)
    by_factor: tuple[float | None, ...] | None = None
    matrix: Float[np.ndarray, "latents factors"] | None = field(default=None, repr=False, compare=False)
    factors: tuple[str, ...] = ()
    latents: tuple[int, ...] = ()
    interval: tuple[float, float] | None = None
    random: float | None = None
    perfect: float | None = None

    def rows(self) -> list[dict[str, Any]]:
        """One row for the score, and one for each factor that has its own."""
        low, high = self.interval or (None, None)
        whole = {"metric": self.metric, "factor": None, "score": self.score, "low": low, "high": high}
        whole |= {"random": self.random, "perfect": self.perfect, **self.parts}
        own = zip(self.factors, self.by_factor or (), strict=False)
        return [whole, *({"metric": self.metric, "factor": name, "score": score} for name, score in own)]

    def plain(self) -> dict[str, Any]:
        """All of it for machines."""
        own = None if self.by_factor is None else dict(zip(self.factors, self.by_factor, strict=False))
        matrix = None if self.matrix is None else self.matrix.tolist()
        return {**vars(self), "parts": dict(self.parts), "by_factor": own, "matrix": matrix}

    def summary(self) -> str:
        """The score, its parts and its scale in one line."""
        text = f"{self.metric} {self.score:.3f}"
        if self.interval is not None:
            text += f" ({self.interval[0]:.3f} to {self.interval[1]:.3f})"
        text += "".join(f", {name.replace('_', ' ')} {value:.3f}" for name, value in self.parts.items())
        if self.random is not None and self.perfect is not None:
            text += f"; noise scores {self.random:.3f}, the factors themselves {self.perfect:.3f}"
        return text


class Common(TypedDict, total=False):
    """What every metric of codes and factors takes.

    `names` of the factors; `exclude` latents of one type, found from a `Representation` or given as `types`;
    `half_samples`, how many to take for an interval; `scale`, whether to score noise and the factors themselves too;
    the `seed` of all that is drawn.
    """

    names: Sequence[str] | None
    exclude: str | None
    types: Any
    half_samples: int
    scale: bool
    seed: int


def evaluate(
    metric: str,
    estimator: str,
    measure: Callable[[Labelled, int], Measured],
    codes: Any,
    factors: Any = None,
    *,
    names: Sequence[str] | None = None,
    exclude: str | None = None,
    types: Any = None,
    half_samples: int = 0,
    scale: bool = False,
    seed: int = 0,
) -> Score:
    """The score of `measure`, which is given the items and a seed, with its interval and scale where asked for."""
    data = labelled(codes, factors, names=names, exclude=exclude, types=types)
    found = measure(data, seed)
    random, perfect = _scale(data, measure, seed) if scale else (None, None)
    return Score(
        metric,
        float(found.score),
        estimator,
        dict(found.parts),
        found.by_factor,
        found.matrix,
        data.names,
        data.latents,
        interval(lambda part, own: measure(part, own).score, data, found.score, half_samples, seed),
        random,
        perfect,
    )


def interval(
    score: Callable[[Labelled, int], float], data: Labelled, whole: float, half_samples: int, seed: int
) -> tuple[float, float] | None:
    """The score, give or take 1.96 standard errors, from halves of the items drawn without replacement.

    The scores of halves spread about their mean as scores of all items do about theirs (a half leaves out as much as it
    holds), and unlike a bootstrap's no item comes twice, to be both learned from and tested on.
    """
    count = whole_number("half_samples", half_samples, 0)
    if count == 0:
        return None
    whole_number("half_samples", count, 2)
    generator = np.random.default_rng((seed, 1))
    scores = [
        score(data.rows(np.sort(generator.permutation(len(data))[: len(data) // 2])), seed + number)
        for number in range(count)
    ]
    error = float(np.std(scores, ddof=1))
    return float(whole - WIDTH * error), float(whole + WIDTH * error)


def _scale(data: Labelled, measure: Callable[[Labelled, int], Measured], seed: int) -> tuple[float, float]:
    noise = np.random.default_rng((seed, 2)).standard_normal(data.codes.shape)
    spread = data.values - data.values.mean(0)
    random, perfect = (float(measure(data.with_codes(part), seed).score) for part in (noise, spread / spread.std(0)))
    return random, perfect
