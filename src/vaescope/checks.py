"""Numbers that come from people or go to machines: what they must be."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from vaescope.errors import ConfigurationError


def is_whole(value: Any, least: int, most: float = math.inf) -> bool:
    """Whether a value is a whole number within bounds; numpy's count, truth values do not."""
    return isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) <= most


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> int:
    """The value as an int, or an error that names it."""
    if not is_whole(value, least, math.inf if most is None else most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ConfigurationError(f"{name} must be a whole number {bounds}, got {value!r}.")
    return int(value)


def finite_number(name: str, value: Any, *, at_least: float = -math.inf, above: float = -math.inf) -> float:
    """The value as a float, or an error that names it."""
    known = isinstance(value, Real) and not isinstance(value, bool) and _is_finite(value)
    if not (known and value >= at_least and value > above):
        bound = f" above {above:g}" if above > -math.inf else f" of at least {at_least:g}"
        bound = "" if max(at_least, above) == -math.inf else bound
        raise ConfigurationError(f"{name} must be a finite number{bound}, got {value!r}.")
    return float(value)


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float holds
        return False


def without_infinities(value: Any) -> Any:
    """Nested tables with None in place of what JSON has no word for: NaN and the infinities."""
    if isinstance(value, dict):
        return {key: without_infinities(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_infinities(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
