"""Measurements of a finished run, kept in its folder: types of latents, rate and metrics, computed once."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from vaescope.checks import whole_number, without_infinities
from vaescope.data import Dataset
from vaescope.encoding import decoder_of, encode
from vaescope.errors import ConfigurationError, VaescopeError, unknown_name
from vaescope.files import write_atomically
from vaescope.metrics.inputs import count_varying
from vaescope.metrics.score import METRICS, check_metrics, measure_all
from vaescope.regime import variable_types
from vaescope.runs.record import RESULTS_FILE, Table
from vaescope.runs.rows import read_measurements
from vaescope.runs.run import Run
from vaescope.runs.sealed import sealed
from vaescope.runs.store import MAX_ITEMS, data_of, sample_items
from vaescope.training.plan import LARGEST_SEED

REGIME = "regime"  # the types of latents and the rate, which are always measured
EXCLUDED_TYPES = ("passive", "mixed")


class MissingMetricWarning(UserWarning):
    """A metric that a finished run cannot have."""


@dataclass(frozen=True)
class MeasurementSpec:
    """What to measure on a run.

    Attributes:
        metrics: Names of metrics; types of latents and rate are always measured.
        items: Maximum number of items to encode.
        exclude: Leave out latents of this type, 'passive' or 'mixed'.
        seed: Random seed for item selection and sampling.
    """

    metrics: tuple[str, ...] = ()
    items: int = MAX_ITEMS
    exclude: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.metrics, str) or not isinstance(self.metrics, Sequence):
            example = self.metrics if isinstance(self.metrics, str) else "mig"
            raise ConfigurationError(f"metrics must be a list of names, got {self.metrics!r}. Write [{example!r}].")
        object.__setattr__(self, "metrics", tuple(self.metrics))
        for name in self.metrics:
            if name not in METRICS:
                raise unknown_name("metric", name, sorted(METRICS))
        whole_number("items", self.items, 2)
        whole_number("seed", self.seed, 0, LARGEST_SEED)
        if self.exclude is not None and self.exclude not in EXCLUDED_TYPES:
            raise ConfigurationError(f"exclude must be 'passive' or 'mixed', got {self.exclude!r}.")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all measurements."""
        return (REGIME, *self.metrics)

    @property
    def conditions(self) -> dict[str, int | str | None]:
        """What the value of a metric depends on, apart from the run and the metric."""
        return {"items": self.items, "exclude": self.exclude, "seed": self.seed}

    def check(self, data: Dataset) -> None:
        """Raise an error if runs on these data cannot have the metrics, before anything trains."""
        if self.metrics:
            sample = sample_items(data, self.items, self.seed)
            check_metrics(self.metrics, count_varying(sample.factors, sample.labels), sample.name)

    def missing(self, found: Table) -> list[str]:
        """The names that were not measured under these conditions."""
        return [name for name in self.names if found.get(name, {}).get("asked") != self.conditions]


def is_measured(run: Run, spec: MeasurementSpec) -> bool:
    """Whether all of the measurements were made under the given conditions."""
    return not spec.missing(read_measurements(run.path))


def measure(run: Run, spec: MeasurementSpec, device: str = "cpu") -> dict[str, float | None]:
    """The measurements of a run by flat names; earlier ones are read, the others are computed on `device`.

    A metric that this run cannot have, such as one that needs latents in use, is None; the reason is kept with it.
    """
    found = read_measurements(run.path)
    missing = spec.missing(found)
    if missing:
        computed = _compute(run, spec, missing, device)
        found |= {name: {"asked": spec.conditions, **result} for name, result in computed.items()}
        write_atomically(run.path / RESULTS_FILE, json.dumps(sealed(without_infinities(found)), indent=1).encode())
    return {name: value for one in spec.names for name, value in found[one]["values"].items()}


def _compute(run: Run, spec: MeasurementSpec, missing: list[str], device: str) -> dict[str, Table]:
    """Compute missing measurements; failures carry a reason."""
    data = sample_items(data_of(run, None), spec.items, spec.seed)
    codes = encode(run.model, data, seed=spec.seed, device=device, progress=False)
    types = variable_types(codes)
    names = None if data.factor_table is None or codes.factors is None else data.factor_table.names
    found: dict[str, Table] = {}
    for name in missing:
        if name == REGIME:
            found[name] = {"values": {**types.counts, "rate": float(types.statistics.rate.sum())}}
            continue
        try:
            (score,) = measure_all(
                [name],
                codes,
                progress=False,
                names=names,
                decoder=decoder_of(run.model, data),
                exclude=spec.exclude,
                types=types,
                seed=spec.seed,
            ).scores
        except VaescopeError as error:
            warnings.warn(f"run {run.id} has no {name}: {error}", MissingMetricWarning, stacklevel=3)
            found[name] = {"values": {name: None}, "why": str(error)}
            continue
        parts = {f"{name}_{part}": value for part, value in score.parts.items()}
        found[name] = {"values": {name: score.score, **parts}}
    return found
