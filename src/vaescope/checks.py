"""Checks of numbers that users pass, and numbers that JSON can hold."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, TypeGuard

from vaescope.errors import ConfigurationError

MAX_SEED = 2**63 - 1  # seeds of random numbers are 64-bit integers


def is_whole(value: object, low: int, high: float = math.inf) -> TypeGuard[int]:
    """Whether a value is an integer from `low` to `high`, of Python or numpy; booleans are not."""
    return isinstance(value, Integral) and not isinstance(value, bool) and low <= int(value) <= high


def whole_number(name: str, value: object, low: int, high: int | None = None) -> int:
    """The value as an int, or a `ConfigurationError` that names it."""
    if not is_whole(value, low, math.inf if high is None else high):
        bounds = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise ConfigurationError(f"{name} must be a whole number {bounds}, got {value!r}.")
    return int(value)


def random_seed(value: object) -> int:
    """The value of an argument `seed` as an int, or a `ConfigurationError`."""
    return whole_number("seed", value, 0, MAX_SEED)


def finite_number(name: str, value: object, *, at_least: float = -math.inf, above: float = -math.inf) -> float:
    """The value as a float, or a `ConfigurationError` that names it."""
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:  # an integer that no float can hold
            number = math.inf
        if math.isfinite(number) and number >= at_least and number > above:
            return number
    bound = f" above {above:g}" if above > -math.inf else f" of at least {at_least:g}"
    bound = "" if max(at_least, above) == -math.inf else bound
    raise ConfigurationError(f"{name} must be a finite number{bound}, got {value!r}.")


def proper_share(name: str, value: object) -> float:
    """A number strictly between 0 and 1, or a `ConfigurationError` that names it."""
    number = finite_number(name, value, above=0)
    if number >= 1:
        raise ConfigurationError(f"{name} must lie strictly between 0 and 1, got {value!r}.")
    return number


def without_infinities(value: Any) -> Any:
    """Nested dicts and lists with None in place of NaN and the infinities, which JSON cannot hold."""
    if isinstance(value, dict):
        return {key: without_infinities(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_infinities(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
