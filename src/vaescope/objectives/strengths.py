"""The numbers of an objective that members of an ensemble may differ in."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import Tensor

from vaescope.checks import finite_number

SCHEDULES = ("warm_up", "free_bits")


def strengths(objective: Any) -> dict[str, float]:
    """The objective's fields that are numbers, by name, the schedules that all objectives have last."""
    names = sorted((field.name for field in dataclasses.fields(objective)), key=lambda name: name in SCHEDULES)
    values = {name: getattr(objective, name) for name in names}
    return {name: value for name, value in values.items() if type(value) in (int, float)}


def form(objective: Any) -> tuple[Any, ...]:
    """What members of an ensemble must share: the kind of objective, and its fields that are not numbers."""
    if not dataclasses.is_dataclass(objective):
        return (type(objective),)
    numbers = strengths(objective)
    others = [field.name for field in dataclasses.fields(objective) if field.name not in numbers]
    return type(objective), *((name, getattr(objective, name)) for name in others)


def in_words(objective: Any) -> str:
    """The strengths as text."""
    return ", ".join(f"{name} {value:g}" for name, value in telling(objective).items())


def telling(objective: Any) -> dict[str, float]:
    """The strengths, without the schedules that are off."""
    return {name: value for name, value in strengths(objective).items() if value or name not in SCHEDULES}


def with_strengths(objective: Any, values: dict[str, Tensor]) -> Any:
    """The same objective with other numbers: tensors, when it is a member of an ensemble."""
    return dataclasses.replace(objective, **values)


def require(objective: Any, name: str, at_least: float) -> None:
    """A strength given as a number must be finite and at least `at_least`."""
    value = getattr(objective, name)
    if isinstance(value, Tensor):
        return
    object.__setattr__(objective, name, finite_number(name, value, at_least=at_least))
