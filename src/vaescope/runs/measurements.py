"""What is measured of a finished run, kept beside it: types, rate and any metrics, once for the same question."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vaescope.checks import whole_number, without_infinities
from vaescope.data import Dataset
from vaescope.encoding import decoder_of, encode
from vaescope.errors import ConfigurationError, RunError, VaescopeError, unknown_name
from vaescope.metrics.inputs import count_varying
from vaescope.metrics.registry import METRICS, check_metrics, measure_all
from vaescope.regime import variable_types
from vaescope.runs.resolve import data_of, sample_items
from vaescope.runs.run import Run
from vaescope.training.checkpoint import write_atomically
from vaescope.training.plan import LARGEST_SEED

FILE = "results.json"
REGIME = "regime"  # the types of latents and the rate, which every measurement has


class MissingMetricWarning(UserWarning):
    """A metric that a finished run cannot have."""


@dataclass(frozen=True)
class MeasurementSpec:
    """The metrics to score, on at most so many items, drawn by the seed, without latents of the type `exclude`."""

    metrics: tuple[str, ...] = ()
    items: int = 10_000
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
        if self.exclude not in (None, "passive", "mixed"):
            raise ConfigurationError(f"exclude must be 'passive' or 'mixed', got {self.exclude!r}.")

    def check(self, data: Dataset) -> None:
        """Data whose runs cannot be measured so are refused before anything trains."""
        if self.metrics:
            some = sample_items(data, self.items, self.seed)
            check_metrics(self.metrics, count_varying(some.factors, some.labels), some.name)

    @property
    def asked(self) -> dict[str, Any]:
        """What values depend on beside the name of the metric."""
        return {"items": self.items, "exclude": self.exclude, "seed": self.seed}


def measured(run: Run) -> dict[str, Any]:
    """What is kept of a run: for each name what was asked, and the values."""
    file = run.path / FILE
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        _ = [one["values"].items() for one in found.values()]
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise RunError(f"{file} is damaged ({type(error).__name__}: {error}). Delete it to measure again.") from error
    return found


def is_measured(run: Run, wanted: MeasurementSpec) -> bool:
    """Whether all that is wanted was measured in just that way."""
    found = measured(run)
    return all(found.get(name, {}).get("asked") == wanted.asked for name in (REGIME, *wanted.metrics))


def measure(run: Run, wanted: MeasurementSpec, device: str = "cpu") -> dict[str, float | None]:
    """The values that are wanted of a run, by flat names; what was measured before is read, the rest on `device`.

    A metric that this run cannot have, as one of passive latents alone, has no value; why is kept beside it.
    """
    found = measured(run)
    missing = [name for name in (REGIME, *wanted.metrics) if found.get(name, {}).get("asked") != wanted.asked]
    if missing:
        found |= {name: {"asked": wanted.asked, **own} for name, own in _found(run, wanted, missing, device).items()}
        write_atomically(run.path / FILE, json.dumps(without_infinities(found), indent=1).encode())
    return {name: value for one in (REGIME, *wanted.metrics) for name, value in found[one]["values"].items()}


def _found(run: Run, wanted: MeasurementSpec, missing: list[str], device: str) -> dict[str, dict[str, Any]]:
    """For each name what was missing: the values, and where there are none, why."""
    some = sample_items(data_of(run, None), wanted.items, wanted.seed)
    codes = encode(run.model, some, seed=wanted.seed, device=device, progress=False)
    types = variable_types(codes)
    names = None if some.factor_table is None or codes.factors is None else some.factor_table.names
    common: dict[str, Any] = {
        "names": names,
        "decoder": decoder_of(run.model, some),
        "exclude": wanted.exclude,
        "types": types,
        "seed": wanted.seed,
    }
    found: dict[str, dict[str, Any]] = {}
    for name in missing:
        if name == REGIME:
            found[name] = {"values": {**types.counts, "rate": float(types.statistics.rate.sum())}}
            continue
        try:
            (score,) = measure_all([name], codes, progress=False, **common).scores
        except VaescopeError as error:
            warnings.warn(f"run {run.id} has no {name}: {error}", MissingMetricWarning, stacklevel=3)
            found[name] = {"values": {name: None}, "why": str(error)}
            continue
        parts = {f"{name}_{part}": value for part, value in score.parts.items()}
        found[name] = {"values": {name: score.score, **parts}}
    return found
