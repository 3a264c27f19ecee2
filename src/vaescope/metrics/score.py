"""A score with its parts and its uncertainty, the registry of metrics, and how metrics are evaluated."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, ParamSpec, Unpack

import numpy as np
from jaxtyping import Float

from vaescope.checks import random_seed, whole_number
from vaescope.codes import CodesLike, Representation
from vaescope.errors import ConfigurationError, DataError, VaescopeError, unknown_name
from vaescope.metrics.decoders import DecoderFunction
from vaescope.metrics.inputs import FactorsLike, InputOptions, MetricInputs, metric_inputs
from vaescope.notebook import NotebookResult
from vaescope.progress import progress_bar
from vaescope.regime.variable_types import TypesLike
from vaescope.registry import Entry, Registry

ALL = "all"
NORMAL_95 = 1.96  # standard errors on each side of a 95% interval


@dataclass(frozen=True)
class RawScore:
    """What a metric computes from one set of items.

    Attributes:
        score: The number.
        parts: Further scores by name.
        by_factor: One score for each factor, if the metric has one.
        matrix: One row for each latent and one column for each factor, if the metric has one.
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
        estimator: How it was computed, in a few words.
        score, parts, by_factor, matrix: As in `RawScore`.
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

    def __post_init__(self) -> None:
        if not math.isfinite(self.score):
            raise DataError(
                f"{self.metric} must be a finite number, but it is {self.score} for these codes. Rescale codes whose "
                "squares are too large or too small for a float."
            )

    def __float__(self) -> float:
        return self.score

    def __format__(self, spec: str) -> str:
        """The score in a number's format, as in f"{score:.3f}"."""
        return format(self.score, spec) if spec else str(self)

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


class MetricOptions(InputOptions, total=False):
    """The keywords that every metric of codes and factors takes, in addition to those of `InputOptions`.

    Attributes:
        half_samples: Number of half-samples for a 95% interval. Default: 0, no interval.
        scale: Also score noise and the factors themselves. Default: False.
        seed: Random seed of all that is drawn.
    """

    half_samples: int
    scale: bool
    seed: int


def inputs_of(
    codes: CodesLike,
    factors: FactorsLike,
    *,
    half_samples: int = 0,
    scale: bool = False,
    seed: int = 0,
    **inputs: Unpack[InputOptions],
) -> MetricInputs:
    """The checked items that a metric with these options is computed on; only the keywords of inputs count."""
    return metric_inputs(codes, factors, **inputs)


def evaluate(
    metric: str,
    estimator: str,
    measure: Callable[[MetricInputs, int], RawScore],
    codes: CodesLike,
    factors: FactorsLike = None,
    *,
    argument: str = "factors",
    half_samples: int = 0,
    scale: bool = False,
    seed: int = 0,
    **inputs: Unpack[InputOptions],
) -> Score:
    """The score of `measure`, a function of items and a seed, with its interval and scale if requested.

    Args:
        metric, estimator: The name of the metric, and how it is computed in a few words.
        measure: Computes the score of the checked items.
        codes: A `Representation` or an array, items x latents.
        factors: One column for each factor. Default: those of the `Representation`.
        argument: The name of the factors in error messages.
        half_samples, scale, seed, inputs: See `MetricOptions`.
    """
    random_seed(seed)
    data = metric_inputs(codes, factors, argument=argument, **inputs)
    found = measure(data, seed)
    score = make_score(metric, estimator, found, data)
    if scale:
        noise = np.random.default_rng((seed, 2)).standard_normal(data.codes.shape)
        centred = data.values - data.values.mean(0)
        random, perfect = (
            float(measure(replace(data, codes=part, latents=tuple(range(part.shape[1]))), seed).score)
            for part in (noise, centred / centred.std(0))
        )
        score = replace(score, random=random, perfect=perfect)
    reach = interval(lambda half, seed: measure(half, seed).score, data, found.score, half_samples, seed)
    return replace(score, interval=reach)


def make_score(metric: str, estimator: str, found: RawScore, data: MetricInputs) -> Score:
    """The score of a metric, with the names of its factors and latents."""
    parts = dict(found.parts)
    if data.rare is not None:
        parts |= {"rare_classes": float(data.rare_classes), "rare_items": float(data.rare_items)}
    fields = (float(found.score), estimator, parts, found.by_factor, found.matrix)
    return Score(metric, *fields, data.names, data.latents)


def interval(
    score: Callable[[MetricInputs, int], float], data: MetricInputs, whole: float, half_samples: int, seed: int
) -> tuple[float, float] | None:
    """The score plus and minus 1.96 standard errors, from random halves of the items.

    Scores of halves spread about their mean as scores of all items do about theirs, since a half leaves out as many
    items as it holds. Unlike in a bootstrap no item occurs twice, once to learn from and once to test on.
    """
    if whole_number("half_samples", half_samples, 0) == 0:
        return None
    generator = np.random.default_rng((seed, 1))
    scores = [
        score(data.rows(np.sort(generator.permutation(len(data))[: len(data) // 2])), seed + number)
        for number in range(whole_number("half_samples", half_samples, 2))
    ]
    error = float(np.std(scores, ddof=1))
    return float(whole - NORMAL_95 * error), float(whole + NORMAL_95 * error)


Metric = Callable[..., Score]
P = ParamSpec("P")


@dataclass(frozen=True)
class MetricEntry(Entry[Metric]):
    """A registered metric.

    Attributes:
        factors: The number of varying factors that it needs: 0 for a metric of codes alone, called as `metric(codes)`;
            otherwise it is called as `metric(codes, **options)` with the keywords of `MetricOptions`.
        decoder: Whether it measures a decoder; then it is called as `metric(decoder, codes)`.
    """

    factors: int
    decoder: bool


class MetricRegistry(Registry[Metric]):
    """Metrics by name, with their requirements."""

    def register(
        self, name: str, *, summary: str, source: str = "", factors: int = 1, decoder: bool = False
    ) -> Callable[[Callable[P, Score]], Callable[P, Score]]:
        """Decorate a metric to make it known by a name; `factors` and `decoder` are described in `MetricEntry`."""
        enter = super().register(name, summary=summary, source=source)

        def enter_metric(metric: Callable[P, Score]) -> Callable[P, Score]:
            metric = _with_options(name, metric)
            enter(metric)
            self._entries[name] = MetricEntry(name, summary, source, metric, factors, decoder)
            return metric

        return enter_metric

    def entry(self, name: str) -> MetricEntry:
        """The metric with its requirements; an unknown name raises an error that lists the known ones."""
        found = super().entry(name)
        assert isinstance(found, MetricEntry)
        return found


METRICS = MetricRegistry("metric", "vaescope.metrics")


@dataclass(frozen=True)
class Measurements:
    """The scores, and the reasons why others could not be computed, by name."""

    scores: tuple[Score, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)


def measure_all(
    wanted: str | Sequence[str],
    codes: Representation,
    *,
    names: Sequence[str] | None = None,
    decoder: DecoderFunction | None = None,
    exclude: str | None = None,
    types: TypesLike | None = None,
    seed: int = 0,
    progress: bool | None = None,
    partial: bool = False,
) -> Measurements:
    """Evaluate several metrics on the same codes.

    Args:
        wanted: Names of metrics, or "all"; then metrics that cannot be computed are left out with the reason.
        codes: The codes and their factors.
        names: Names of the factors.
        decoder: Needed by the metrics of decoders.
        exclude, types: Latents to leave out of metrics of factors, as in `MetricOptions`.
        seed: Random seed of all that is drawn.
        progress: Whether to show progress: a bar on a terminal, lines in a log. Default: True.
        partial: Leave out, with the reason, also named metrics that the data do not allow; otherwise they raise.

    Scores of codes and factors come with those of noise and of the factors themselves.
    """
    chosen = list(METRICS) if wanted == ALL else [wanted] if isinstance(wanted, str) else list(wanted)
    for name in chosen:
        if name not in METRICS:
            raise unknown_name("metric", name, (*METRICS, ALL))
    options: MetricOptions = {"names": names, "exclude": exclude, "types": types, "scale": True, "seed": seed}
    tolerated = VaescopeError if wanted == ALL else DataError if partial else ()
    scores, left_out = [], {}
    with progress_bar("computing metrics", len(chosen), progress if chosen else False) as report:
        for done, name in enumerate(chosen):
            report(done, words=name)
            try:
                scores.append(_score(METRICS.entry(name), codes, decoder, options))
            except tolerated as error:
                left_out[name] = str(error)
    return Measurements(tuple(scores), left_out)


def check_metrics(wanted: Sequence[str], varying_factors: int, data: str) -> None:
    """Raise an error, before anything is trained, if the data set called `data` has too few varying factors."""
    for name in wanted:
        needed = METRICS.entry(name).factors
        if varying_factors < needed:
            what = "a varying factor or label" if needed == 1 else f"at least {needed} varying factors"
            raise DataError(
                f"{name} needs {what}, {data} has {varying_factors or 'none'}. Leave {name} out, or use other data."
            )


def _score(entry: MetricEntry, codes: Representation, decoder: DecoderFunction | None, options: MetricOptions) -> Score:
    if entry.decoder:
        if decoder is None:
            raise ConfigurationError(
                f"{entry.name} needs a decoder of codes that are vectors, and there is none. Pass a run, or a model "
                "that decodes vectors."
            )
        return entry.variant(decoder, codes)
    return entry.variant(codes, **options) if entry.factors else entry.variant(codes)


def _with_options(name: str, metric: Callable[P, Score]) -> Callable[P, Score]:
    """A metric whose signature and documentation have the keywords of `MetricOptions` in place of `**options`.

    It refuses other keywords by its own name, before any function that it passes them to.
    """
    signature = inspect.signature(metric)
    explicit = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    if len(explicit) == len(signature.parameters):
        return metric
    known = {**inspect.signature(metric_inputs).parameters, **inspect.signature(evaluate).parameters}
    shared = [known[option] for option in MetricOptions.__annotations__]
    shown = signature.replace(parameters=[*explicit, *shared])

    @wraps(metric)
    def checked(*args: P.args, **kwargs: P.kwargs) -> Score:
        for keyword in kwargs:
            if keyword not in shown.parameters:
                raise TypeError(f"{name}() got an unexpected keyword argument {keyword!r}")
        return metric(*args, **kwargs)

    vars(checked)["__signature__"] = shown
    texts = [metric.__doc__, *(options.__doc__ for options in (InputOptions, MetricOptions))]
    own, *lists = (inspect.cleandoc(text or "") for text in texts)
    checked.__doc__ = "\n".join([own, "", "Options:", *(text.partition("Attributes:\n")[2] for text in lists)])
    return checked
