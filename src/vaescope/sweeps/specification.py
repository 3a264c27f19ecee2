"""A sweep: one run for every combination of the values of a grid."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vaescope.checks import check_run_count
from vaescope.data import DataLike
from vaescope.errors import ConfigurationError, quoted, unknown_name
from vaescope.runs.measurements import MeasurementSpec
from vaescope.runs.options import FitOptions
from vaescope.training import Member

MEMBER_KEYS = ("latents", "learning_rate", "seed")
# Device, folder and progress are chosen when the sweep is run.
ENGINE_KEYS = ("device", "runs", "progress", "checkpoint_seconds", "on_row", "tracker")
# The runs of a sweep depend on the sweep alone, not on other runs: none has a `start`. Their plans say what to compile.
NO_SETTINGS = (*ENGINE_KEYS, "start", "compile")
SETTING_KEYS = tuple(entry.name for entry in dataclasses.fields(FitOptions) if entry.name not in NO_SETTINGS)
PARTS = ("model", "net", "posterior", "prior", "likelihood", "optimiser")


@dataclass(frozen=True)
class Trial:
    """One run of a sweep: its data, its settings, and the member to train."""

    data: DataLike
    settings: Mapping[str, Any]
    member: Member

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Trial:
        """The run with these values, whose keys are those of a grid and must include 'data' and 'objective'."""
        parts = {key: value for key, value in values.items() if "." not in key}
        for key, value in values.items():
            part, _, option = key.partition(".")
            if not option:
                continue
            table = parts.get(part)
            if table is None:
                raise ConfigurationError(f"{key} is an option of a {part}, and the sweep names none. Add {part}.")
            parts[part] = {**(table if isinstance(table, Mapping) else {"name": table}), option: value}
        own = {name: parts.pop(name) for name in MEMBER_KEYS if name in parts}
        data, objective = parts.pop("data"), parts.pop("objective")
        return cls(data, parts, Member(objective=objective, **own))


@dataclass(frozen=True)
class Sweep:
    """Every combination of the grid's values; a value of the grid replaces the one given outside it.

    Attributes:
        data: A name, a path, or a table of a name and options.
        settings: Options of `fit`, except where it runs.
        member: latents, learning_rate, seed.
        objective: A table of a name and strengths.
        grid: Key -> values. A key is the name of a setting or of a field of a member, 'objective', 'data', or an
            option of a part: 'objective.beta', 'net.hidden', 'data.items'.
        measure: The measurements of every run.
    """

    data: DataLike
    settings: Mapping[str, Any] = field(default_factory=dict)
    member: Mapping[str, Any] = field(default_factory=dict)
    objective: Mapping[str, Any] = field(default_factory=lambda: {"name": "beta"})
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    measure: MeasurementSpec = field(default_factory=MeasurementSpec)

    def __post_init__(self) -> None:
        for name in self.settings:
            if name not in SETTING_KEYS:
                raise unknown_name("setting", name, SETTING_KEYS)
        for name in self.member:
            if name not in MEMBER_KEYS:
                raise unknown_name("field of a member", name, MEMBER_KEYS)
        for key, values in self.grid.items():
            check_grid_entry(key, values)
        check_run_count({key: len(values) for key, values in self.grid.items()})

    def trials(self) -> list[Trial]:
        """Every run; the last key of the grid varies fastest."""
        common = {"data": self.data, "objective": self.objective, **self.settings, **self.member}
        combinations = itertools.product(*self.grid.values())
        return [Trial.of({**common, **dict(zip(self.grid, values, strict=True))}) for values in combinations]


def check_grid_entry(key: str, values: object) -> None:
    """Raise an error unless the key of the grid is a setting of a run and its values are a list."""
    part, _, option = key.partition(".")
    known = (*MEMBER_KEYS, *SETTING_KEYS, "objective", "data")
    if part == "model" and option in (*MEMBER_KEYS, *SETTING_KEYS):
        raise ConfigurationError(f"{option} is a setting, not an option of the model. Write {option} instead of {key}.")
    if option and part not in (*PARTS, "objective", "data"):
        raise unknown_name("the part in a key of the grid", part, (*PARTS, "objective", "data"))
    if not option and part not in known:
        raise unknown_name("a key of the grid", part, known)
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise ConfigurationError(f"{key} in the grid must be a list of at least one value, got {quoted(values)}.")


def data_name(data: DataLike) -> str:
    """The name of the data of a sweep."""
    return str(data["name"] if isinstance(data, Mapping) else data)
