"""A sweep: a grid of runs from one description, and the jobs that they train in."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vaescope.errors import ConfigurationError, unknown_name
from vaescope.runs.measurements import MeasurementSpec
from vaescope.runs.options import FitOptions
from vaescope.training import Member

MEMBER = ("latents", "learning_rate", "seed")
# Where and how runs are trained is the engine's to say, not the sweep's.
ENGINE = ("device", "runs", "progress", "checkpoint_seconds")
SETTINGS = tuple(entry.name for entry in dataclasses.fields(FitOptions) if entry.name not in ENGINE)
PARTS = ("model", "net", "posterior", "prior", "likelihood", "optimiser")


@dataclass(frozen=True)
class Trial:
    """One run of a sweep: its data, its settings, and the member that it is."""

    data: Any
    settings: dict[str, Any]
    member: Member


@dataclass(frozen=True)
class Sweep:
    """Every combination of the grid's values, each in place of what is said beside it.

    Attributes:
        data: A name, a path, or a table with a name and options.
        settings: Those of `fit`, but for where it runs.
        member: latents, learning_rate, seed.
        objective: A table with a name and strengths.
        grid: Place -> values. A place is the name of a setting or of a field of a member, 'objective' or 'data', or an
            option of a part: 'objective.beta', 'net.hidden', 'data.items'.
        measure: What is measured of every run.
    """

    data: Any
    settings: Mapping[str, Any] = field(default_factory=dict)
    member: Mapping[str, Any] = field(default_factory=dict)
    objective: Mapping[str, Any] = field(default_factory=lambda: {"name": "beta"})
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    measure: MeasurementSpec = field(default_factory=MeasurementSpec)

    def __post_init__(self) -> None:
        for name in self.settings:
            if name not in SETTINGS:
                raise unknown_name("setting", name, SETTINGS)
        for name in self.member:
            if name not in MEMBER:
                raise unknown_name("field of a member", name, MEMBER)
        for place, values in self.grid.items():
            check_place(place)
            if isinstance(values, str) or not isinstance(values, Sequence) or not values:
                raise ConfigurationError(f"the grid's {place} must be a list of at least one value, got {values!r}.")

    def trials(self) -> list[Trial]:
        """Every run, the last place of the grid varying fastest."""
        return [
            self._trial(dict(zip(self.grid, chosen, strict=True))) for chosen in itertools.product(*self.grid.values())
        ]

    def _trial(self, chosen: dict[str, Any]) -> Trial:
        parts: dict[str, Any] = {"data": self.data, "objective": dict(self.objective), **self.settings, **self.member}
        # Whole parts first: an option belongs to the part that was chosen.
        for place in sorted(chosen, key=lambda place: "." in place):
            part, _, option = place.partition(".")
            if not option:
                parts[part] = chosen[place]
                continue
            table = parts.get(part)
            if table is None:
                raise ConfigurationError(f"the grid's {place} needs a {part} that it is an option of; name it.")
            parts[part] = {**(table if isinstance(table, Mapping) else {"name": table}), option: chosen[place]}
        own = {name: parts.pop(name) for name in MEMBER if name in parts}
        data, objective = parts.pop("data"), parts.pop("objective")
        return Trial(data, parts, Member(objective=objective, **own))


def check_place(place: str) -> None:
    """A place of the grid must be one that a run has."""
    part, _, option = place.partition(".")
    known = (*MEMBER, *SETTINGS, "objective", "data")
    if part == "model" and option in (*MEMBER, *SETTINGS):
        raise ConfigurationError(f"{option} is no option of the model but a setting of its own: write {option}.")
    if option and part not in (*PARTS, "objective", "data"):
        raise unknown_name("the part of a place in the grid", part, (*PARTS, "objective", "data"))
    if not option and part not in known:
        raise unknown_name("a place in the grid", part, known)


def data_name(data: Any) -> str:
    """What the data of a sweep are called."""
    return str(data["name"] if isinstance(data, Mapping) else data)
