"""Whether the values of a factor are classes or numbers on a scale."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from vaescope.errors import ConfigurationError, FactorTypeWarning, unknown_name

MAX_LIKELY_CLASSES = 100  # whole numbers with more values may be degrees, years or prices
PROBE_ITEMS = 1000
MIN_LIKELY_REPEATS = 5  # items for each value, on average; numbers on a scale seldom repeat as often

# All factors or none, or some of them by name or by number.
FactorChoice: TypeAlias = bool | int | str | Iterable[int | str]


def discrete_factors(
    values: Float[np.ndarray, "items factors"],
    names: tuple[str, ...],
    columns: Sequence[int],
    discrete: FactorChoice,
    continuous: FactorChoice,
) -> tuple[bool, ...]:
    """Whether the values of each factor are classes: as chosen, or else if they are whole numbers."""
    classes, numbers = (
        _chosen(what, choice, names, columns) for what, choice in (("discrete", discrete), ("continuous", continuous))
    )
    both = classes & numbers
    if both:
        raise ConfigurationError(f"a factor is discrete or continuous, got {names[min(both)]!r} as both. Choose one.")
    whole = (values == np.floor(values)).all(0).tolist()
    return tuple(place in classes or (kind and place not in numbers) for place, kind in enumerate(whole))


def warn_of_unlikely_types(
    values: Float[np.ndarray, "items factors"], names: tuple[str, ...], discrete: tuple[bool, ...]
) -> None:
    """Warn of continuous factors with few values, which may be classes, and of discrete factors with many."""
    for name, column, classes in zip(names, values.T, discrete, strict=True):
        # The first items nearly always show that there are many values.
        count = len(np.unique(column[:PROBE_ITEMS]))
        if count <= MAX_LIKELY_CLASSES or classes:
            count = len(np.unique(column))
        few = count <= min(MAX_LIKELY_CLASSES, len(column) / MIN_LIKELY_REPEATS)
        if (count > MAX_LIKELY_CLASSES) if classes else few:
            chosen, other = ("classes", "continuous") if classes else ("continuous", "classes")
            keywords = [f"{keyword}={[name]!r}" for keyword in ("continuous", "discrete")]
            if not classes:
                keywords.reverse()
            warnings.warn(
                f"{name!r} is treated as {chosen}, but its {count} different values may be {other}. Pass "
                f"{keywords[0]} if they are, or {keywords[1]} to confirm.",
                FactorTypeWarning,
                stacklevel=2,
            )


def _chosen(argument: str, choice: FactorChoice, names: tuple[str, ...], columns: Sequence[int]) -> set[int]:
    """The places of the factors that are chosen by name or by the number of their column."""
    if isinstance(choice, bool):
        return set(range(len(names))) if choice else set()
    known: dict[str | int, int] = {name: place for place, name in enumerate(names)}
    known |= {column: place for place, column in enumerate(columns)}
    chosen = set()
    for entry in choice if isinstance(choice, Iterable) and not isinstance(choice, str) else [choice]:
        # True would be taken as column 1.
        if isinstance(entry, bool | np.bool_) or not isinstance(entry, Hashable) or entry not in known:
            raise unknown_name(argument, entry, names)
        chosen.add(known[entry])
    return chosen
