"""The numbers of an objective that members of an ensemble may differ in."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from torch import Tensor

from vaescope.checks import finite_number
from vaescope.objectives.objective import Objective

SCHEDULES = ("warm_up", "free_bits")


def strengths(objective: Objective) -> dict[str, float]:
    """The fields of the objective that are numbers, by name; the schedules come last."""
    names = sorted((field.name for field in dataclasses.fields(objective)), key=lambda name: name in SCHEDULES)
    values = {name: getattr(objective, name) for name in names}
    return {name: value for name, value in values.items() if type(value) in (int, float)}


def form(objective: Objective) -> tuple[object, ...]:
    """What members of an ensemble must share: the class of the objective and its fields that are not numbers."""
    numbers = strengths(objective)
    others = [field.name for field in dataclasses.fields(objective) if field.name not in numbers]
    return type(objective), *((name, getattr(objective, name)) for name in others)


def in_words(objective: Objective) -> str:
    """The strengths in use as text, for instance 'beta 4, warm_up 100'."""
    return ", ".join(f"{name} {value:g}" for name, value in strengths_in_use(objective).items())


def strengths_in_use(objective: Objective) -> dict[str, float]:
    """The strengths, without schedules that are off."""
    return {name: value for name, value in strengths(objective).items() if value or name not in SCHEDULES}


def with_strengths(objective: Objective, values: Mapping[str, Tensor]) -> Objective:
    """The same objective with tensors as its strengths."""
    return dataclasses.replace(objective, **values)


def require(objective: Objective, name: str, at_least: float) -> None:
    """Raise an error if a strength is a number that is not finite or below `at_least`."""
    value = getattr(objective, name)
    if not isinstance(value, Tensor):
        object.__setattr__(objective, name, finite_number(name, value, at_least=at_least))
