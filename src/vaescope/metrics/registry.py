"""The registry of metrics, and the evaluation of several metrics at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from vaescope.codes import Representation
from vaescope.errors import ConfigurationError, DataError, VaescopeError, unknown_name
from vaescope.metrics.decoders import DecoderFunction
from vaescope.metrics.inputs import TypesLike
from vaescope.metrics.score import MetricOptions, Score, evaluate
from vaescope.progress import progress_bar
from vaescope.registry import Entry, Registry

ALL = "all"

Metric = Callable[..., Score]
M = TypeVar("M", bound=Metric)


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
    """Metrics by name, with what each of them needs."""

    def register(
        self, name: str, *, summary: str, source: str = "", factors: int = 1, decoder: bool = False
    ) -> Callable[[M], M]:
        """Decorate a metric to make it known by a name; `factors` and `decoder` are described in `MetricEntry`."""
        enter = super().register(name, summary=summary, source=source)

        def enter_metric(metric: M) -> M:
            enter(metric)
            self._entries[name] = MetricEntry(name, summary, source, metric, factors, decoder)
            _expand_options(metric)
            return metric

        return enter_metric

    def entry(self, name: str) -> MetricEntry:
        """The metric with what it needs; an unknown name raises an error that lists the known ones."""
        found = super().entry(name)
        assert isinstance(found, MetricEntry)
        return found


METRICS = MetricRegistry("metric", "vaescope.metrics")


@dataclass(frozen=True)
class Measurements:
    """The scores, and by name why others could not be computed."""

    scores: tuple[Score, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)


def measure_all(
    wanted: str | Sequence[str],
    codes: Representation,
    *,
    names: Sequence[str] | None = None,
    decoder: DecoderFunction | None = None,
    exclude: str | None = None,
    types: TypesLike = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Measurements:
    """Evaluate several metrics on the same codes.

    Args:
        wanted: Names of metrics, or "all"; then metrics that cannot be computed are left out with the reason.
        codes: The codes and their factors.
        names: Names of the factors.
        decoder: Needed by the metrics of decoders.
        exclude, types: Latents to leave out of metrics of factors, as in `MetricOptions`.
        seed: Random seed of all that is drawn.
        progress: Whether to show a progress bar. Default: on a terminal.

    Scores of codes and factors come with those of noise and of the factors themselves.
    """
    chosen = list(METRICS) if wanted == ALL else [wanted] if isinstance(wanted, str) else list(wanted)
    for name in chosen:
        if name not in METRICS:
            raise unknown_name("metric", name, (*METRICS, ALL))
    options: MetricOptions = {"names": names, "exclude": exclude, "types": types, "scale": True, "seed": seed}
    scores, left_out = [], {}
    with progress_bar("measuring", len(chosen), progress) as report:
        for done, name in enumerate(chosen, 1):
            try:
                scores.append(_score(METRICS.entry(name), codes, decoder, options))
            except VaescopeError as error:
                if wanted != ALL:
                    raise
                left_out[name] = str(error)
            report(done, words=name)
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
            raise ConfigurationError(f"{entry.name} needs a decoder, and these are codes alone. Pass a run or a model.")
        return entry.variant(decoder, codes)
    return entry.variant(codes, **options) if entry.factors else entry.variant(codes)


def _expand_options(metric: Metric) -> None:
    """Show the keywords of `MetricOptions` in `help()` in place of `**options`."""
    signature = inspect.signature(metric)
    explicit = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    if len(explicit) < len(signature.parameters):
        known = inspect.signature(evaluate).parameters
        shared = [known[name] for name in MetricOptions.__annotations__]
        vars(metric)["__signature__"] = signature.replace(parameters=[*explicit, *shared])
