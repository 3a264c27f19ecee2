"""Checks of values that users pass, and numbers that JSON can hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any, TypeGuard

from vaescope.errors import ConfigurationError, quoted

LARGEST_NUMBER = 2**53  # floats are exact for whole numbers up to it; torch counts in 64 bits
MAX_DEPTH = 20  # levels of nested lists and tables; deeper ones exceed the recursion limit
MAX_BITS = 10_000  # of an integer; Python prints at most 4300 digits
MAX_RUNS = 100_000  # of a grid
MAX_SEED = 2**63 - 1  # seeds of random numbers are 64-bit integers


def is_whole(value: object, low: int, high: float = math.inf) -> TypeGuard[int]:
    """Whether a value is an integer from `low` to `high`, of Python or numpy; booleans are not."""
    return isinstance(value, Integral) and not isinstance(value, bool) and low <= int(value) <= high


def whole_number(name: str, value: object, low: int, high: int | None = None) -> int:
    """The value as an int, or a `ConfigurationError` that names it; `high` is `LARGEST_NUMBER` by default."""
    if not is_whole(value, low, LARGEST_NUMBER if high is None else high):
        unbounded = high is None and not is_whole(value, low)
        bounds = f"of at least {low}" if unbounded else f"from {low} to {LARGEST_NUMBER if high is None else high}"
        raise ConfigurationError(f"{name} must be a whole number {bounds}, got {quoted(value)}.")
    return int(value)


def random_seed(value: object) -> int:
    """The value of an argument `seed` as an int, or a `ConfigurationError`."""
    return whole_number("seed", value, 0, MAX_SEED)


def finite_number(
    name: str, value: object, *, at_least: float = -math.inf, above: float = -math.inf, at_most: float = math.inf
) -> float:
    """The value as a float, or a `ConfigurationError` that names it."""
    if isinstance(value, Real) and not isinstance(value, bool):
        # torch holds integers of 64 bits only, a float all others.
        number = math.inf if isinstance(value, int) and abs(value) > LARGEST_NUMBER else float(value)
        if math.isfinite(number) and at_least <= number <= at_most and number > above:
            return number
    bound = f" above {above:g}" if above > -math.inf else f" of at least {at_least:g}"
    bound = "" if max(at_least, above) == -math.inf else bound
    bound += "" if at_most == math.inf else f" and at most {at_most:g}"
    raise ConfigurationError(f"{name} must be a finite number{bound}, got {quoted(value)}.")


def part_of(whole: int, part: float | int) -> int:
    """The number of items of a part: `part` is a share (float) or that number (int)."""
    # A share is clipped, because the product of a large one is infinite.
    return round(max(0.0, min(1.0, part)) * whole) if isinstance(part, float) else part


def proper_share(name: str, value: object) -> float:
    """A number strictly between 0 and 1, or a `ConfigurationError` that names it."""
    number = finite_number(name, value, above=0)
    if number >= 1:
        raise ConfigurationError(f"{name} must lie strictly between 0 and 1, got {value!r}.")
    return number


def check_plain(name: str, value: object) -> None:
    """Raise an error for values that Python cannot print: deeply nested lists and tables, and huge integers."""
    inside = [value]
    for _ in range(MAX_DEPTH + 1):
        inside = [entry for one in inside for entry in _entries(one)]
        if any(isinstance(one, int) and one.bit_length() > MAX_BITS for one in inside):
            raise ConfigurationError(f"{name} must have integers of at most {MAX_BITS:,} bits; shorten the longest.")
    if inside:
        raise too_deep(name)


def too_deep(name: str) -> ConfigurationError:
    """The error for lists and tables that are nested more than `MAX_DEPTH` deep."""
    return ConfigurationError(
        f"{name} must have at most {MAX_DEPTH} lists and tables inside each other, but it has more. Nest fewer."
    )


def check_run_count(counts: Mapping[str, int]) -> None:
    """Raise an error if a grid with `counts` values of each key has more than `MAX_RUNS` combinations."""
    if math.prod(counts.values()) > MAX_RUNS:
        several = " x ".join(f"{count} of {key}" for key, count in counts.items() if count > 1)
        raise ConfigurationError(
            f"a grid must have at most {MAX_RUNS:,} combinations, got {several}. Train it in several parts."
        )


def without_infinities(value: Any) -> Any:
    """Nested dicts and lists with None in place of NaN and the infinities, which JSON cannot hold."""
    if isinstance(value, dict):
        return {key: without_infinities(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_infinities(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _entries(value: object) -> Iterable[object]:
    """The entries of a list or table; none for other values."""
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()
