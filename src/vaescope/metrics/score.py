"""A score with its parts, its uncertainty, and the scores of noise and of perfect codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

import numpy as np
from jaxtyping import Float

from vaescope.checks import whole_number
from vaescope.metrics.inputs import CodesLike, FactorsLike, MetricInputs, TypesLike, metric_inputs
from vaescope.notebook import NotebookResult

NORMAL_95 = 1.96  # standard errors on each side of a 95% interval


@dataclass(frozen=True)
class RawScore:
    """What a metric computes from one set of items.

    Attributes:
        score: The number.
        parts: Further scores by name.
        by_factor: One score for each factor.
        matrix: One row for each latent, one column for each factor.
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
        estimator: How it was computed, in a few words.
        parts: Further scores of the same metric, by name.
        by_factor: The score of each factor, if the metric has one.
        matrix: One row for each latent, one column for each factor, if the metric has one.
        factors: The names of the factors.
        latents: The indices of the latents that were scored.
        interval: A 95% interval over other draws of items. None unless requested; means over items always have one.
        random, perfect: The scores of noise and of the factors themselves as codes. None unless requested.
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
        """One row for the score, and one for each factor that has a score."""
        low, high = self.interval or (None, None)
        whole = {"metric": self.metric, "factor": None, "score": self.score, "low": low, "high": high}
        whole |= {"random": self.random, "perfect": self.perfect, **self.parts}
        by_factor = zip(self.factors, self.by_factor or (), strict=False)
        return [whole, *({"metric": self.metric, "factor": name, "score": score} for name, score in by_factor)]

    def plain(self) -> dict[str, object]:
        """All fields as plain values, ready for JSON."""
        by_factor = None if self.by_factor is None else dict(zip(self.factors, self.by_factor, strict=False))
        matrix = None if self.matrix is None else self.matrix.tolist()
        return {**vars(self), "parts": dict(self.parts), "by_factor": by_factor, "matrix": matrix}

    def summary(self) -> str:
        """The score, its parts and its scale in one line."""
        text = f"{self.metric} {self.score:.3f}"
        if self.interval is not None:
            text += f" ({self.interval[0]:.3f} to {self.interval[1]:.3f})"
        text += "".join(f", {name.replace('_', ' ')} {value:.3f}" for name, value in self.parts.items())
        if self.random is not None and self.perfect is not None:
            text += f"; noise scores {self.random:.3f}, the factors themselves {self.perfect:.3f}"
        return text


class MetricOptions(TypedDict, total=False):
    """The keywords that every metric of codes and factors takes.

    Attributes:
        names: Names of the factors.
        exclude: Leave out the latents of this type: 'passive', 'mixed' or 'active'.
        types: The types of the latents. Default: found from a `Representation`.
        half_samples: Number of half-samples for a 95% interval. Default: 0, no interval.
        scale: Also score noise and the factors themselves. Default: False.
        seed: Random seed of all that is drawn.
    """

    names: Sequence[str] | None
    exclude: str | None
    types: TypesLike
    half_samples: int
    scale: bool
    seed: int


def inputs_of(codes: CodesLike, factors: FactorsLike, options: MetricOptions) -> MetricInputs:
    """The checked items that a metric with these options is computed on."""
    names, exclude, types = options.get("names"), options.get("exclude"), options.get("types")
    return metric_inputs(codes, factors, names=names, exclude=exclude, types=types)


def evaluate(
    metric: str,
    estimator: str,
    measure: Callable[[MetricInputs, int], RawScore],
    codes: CodesLike,
    factors: FactorsLike = None,
    *,
    names: Sequence[str] | None = None,
    exclude: str | None = None,
    types: TypesLike = None,
    half_samples: int = 0,
    scale: bool = False,
    seed: int = 0,
) -> Score:
    """The score of `measure`, a function of items and a seed, with its interval and scale if requested."""
    data = metric_inputs(codes, factors, names=names, exclude=exclude, types=types)
    found = measure(data, seed)
    random, perfect = _scale(data, measure, seed) if scale else (None, None)
    reach = interval(lambda half, seed: measure(half, seed).score, data, found.score, half_samples, seed)
    return make_score(metric, estimator, found, data, interval=reach, random=random, perfect=perfect)


def make_score(
    metric: str,
    estimator: str,
    found: RawScore,
    data: MetricInputs,
    *,
    interval: tuple[float, float] | None = None,
    random: float | None = None,
    perfect: float | None = None,
) -> Score:
    """The score that a metric found, with the names of the factors and latents it was computed from."""
    fields = (float(found.score), estimator, dict(found.parts), found.by_factor, found.matrix)
    return Score(metric, *fields, data.names, data.latents, interval, random, perfect)


def interval(
    score: Callable[[MetricInputs, int], float], data: MetricInputs, whole: float, half_samples: int, seed: int
) -> tuple[float, float] | None:
    """The score plus and minus 1.96 standard errors, from random halves of the items.

    Scores of halves spread about their mean as scores of all items do about theirs, since a half leaves out as many
    items as it holds. Unlike in a bootstrap no item occurs twice, once to learn from and once to test on.
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
    return float(whole - NORMAL_95 * error), float(whole + NORMAL_95 * error)


def _scale(data: MetricInputs, measure: Callable[[MetricInputs, int], RawScore], seed: int) -> tuple[float, float]:
    """The scores of noise and of the standardised factors."""
    noise = np.random.default_rng((seed, 2)).standard_normal(data.codes.shape)
    centred = data.values - data.values.mean(0)
    random, perfect = (float(measure(data.with_codes(part), seed).score) for part in (noise, centred / centred.std(0)))
    return random, perfect
