"""What FONDUE searches over: the number of latents, or a strength of the objective at a given number of latents."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TypeAlias

from vaescope.checks import finite_number, whole_number
from vaescope.errors import ConfigurationError
from vaescope.objectives import Objective, strengths
from vaescope.objectives.objective import SCHEDULES
from vaescope.training import Member

LATENTS = "latents"
STEPS_PER_DOUBLING = 4


@dataclass(frozen=True)
class Latents:
    """Numbers of latents from 1 to `largest`; the position of a number is the number itself."""

    largest: int
    name: str = LATENTS

    def value(self, position: int) -> int:
        return position

    def position(self, value: float) -> int:
        return min(max(1, round(value)), self.largest)

    def member(self, position: int, member: Member) -> Member:
        return dataclasses.replace(member, latents=position)

    def of(self, member: Member) -> int:
        return member.latents


@dataclass(frozen=True)
class Strength:
    """Strengths of an objective, such as beta, in even logarithmic steps from `lowest` to `highest`.

    Positions 1, 2, ..., `largest` are the steps.
    """

    name: str
    lowest: float = 2.0**-6
    highest: float = 2.0**12
    steps_per_doubling: int = STEPS_PER_DOUBLING

    def __post_init__(self) -> None:
        finite_number("the lowest strength", self.lowest, above=0)
        finite_number("the highest strength", self.highest, above=self.lowest)
        whole_number("steps_per_doubling", self.steps_per_doubling, 1)

    @property
    def largest(self) -> int:
        return 1 + math.floor(math.log2(self.highest / self.lowest) * self.steps_per_doubling + 1e-9)

    def value(self, position: int) -> float:
        return self.lowest * float(2.0 ** ((position - 1) / self.steps_per_doubling))

    def position(self, value: float) -> int:
        if value <= self.lowest:  # a strength of 0 has no logarithm
            return 1
        place = 1 + round(math.log2(value / self.lowest) * self.steps_per_doubling)
        return min(max(1, place), self.largest)

    def member(self, position: int, member: Member) -> Member:
        changed = dataclasses.replace(member.objective, **{self.name: self.value(position)})
        return dataclasses.replace(member, objective=changed)

    def of(self, member: Member) -> float:
        return strengths(member.objective)[self.name]


# The gap rises along an axis. `value` is that at a position, `position` the nearest to a value, `of` the value of a
# member, and `member` changes a member to the value at a position.
Axis: TypeAlias = Latents | Strength


def axis_over(name: str, largest: int, objective: Objective) -> Axis:
    """The axis called `name`: 'latents', or one of the objective's strengths."""
    if name == LATENTS:
        return Latents(largest)
    known = [strength for strength in strengths(objective) if strength not in SCHEDULES]
    if name not in known:
        raise ConfigurationError(
            f"over must be {LATENTS!r} or a strength of {type(objective).__name__} ({', '.join(known)}), got {name!r}."
        )
    return Strength(name)
