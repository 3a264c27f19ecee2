"""Text of the command line as values: parts of a model with their options, lists of numbers, data with options."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from vaescope.errors import ConfigurationError

if TYPE_CHECKING:
    from vaescope.data import Dataset

Number = TypeVar("Number", int, float)
Table = dict[str, object]

PARTS = ("data", "model", "net", "posterior", "prior", "likelihood", "optimiser", "objective", "gap")


@dataclass(frozen=True)
class PartOptions:
    """The options of parts that `--set` gave."""

    tables: Mapping[str, Table]

    @classmethod
    def parse(cls, settings: Sequence[str]) -> PartOptions:
        """Read PART.OPTION=VALUE texts; a value is JSON, or else text."""
        tables: dict[str, Table] = {part: {} for part in PARTS}
        for setting in settings:
            path, equals, value = setting.partition("=")
            part, dot, option = path.partition(".")
            if not (equals and dot and option and part in PARTS):
                raise ConfigurationError(
                    f"--set must be PART.OPTION=VALUE with PART one of {', '.join(PARTS)}, got {setting!r}."
                )
            try:
                tables[part][option] = json.loads(value)
            except ValueError:
                tables[part][option] = value
        return cls(tables)

    def of(self, part: str) -> Table:
        """The options of one part."""
        return self.tables[part]

    def part(self, kind: str, name: str | None) -> str | Table | None:
        """A part by its name alone, or as a table with its options."""
        table = self.of(kind)
        if not table:
            return name
        if name is None:
            raise ConfigurationError(f"--set {kind}.{next(iter(table))} needs --{kind} to name the {kind}.")
        return {"name": name, **table}

    def objective(self, name: str, *, beta: float | None, warm_up: float | None, free_bits: float | None) -> Table:
        """The objective as a table; options of the command line that are None keep the objective's default."""
        flags = (("beta", beta), ("warm_up", warm_up), ("free_bits", free_bits))
        given = {option: value for option, value in flags if value is not None}
        return {"name": name, **self.of("objective"), **given}


def open_data(data: str, given: PartOptions) -> str | Dataset:
    """The name or path itself, or the opened data set if `--set data.OPTION=VALUE` gave options."""
    options = given.of("data")
    if not options:
        return data
    from vaescope.data import open_dataset

    try:
        return open_dataset(data, **options)
    except TypeError as error:
        # Options come as text, so that they may be of any type.
        words = " ".join(f"--set data.{name}={value}" for name, value in options.items())
        raise ConfigurationError(f"the options of {data} must have the right types, got {words} ({error}).") from error


def numbers(option: str, values: str, kind: Callable[[str], Number]) -> list[Number]:
    """The numbers of a comma-separated list."""
    try:
        return [kind(value) for value in values.split(",")]
    except ValueError:
        wanted = "whole numbers" if kind is int else "numbers"
        raise ConfigurationError(f"--{option} must be {wanted} separated by commas, got {values!r}.") from None


def names(values: str | None) -> str | list[str] | None:
    """The names of a comma-separated list; 'all' and None stay as they are."""
    return values if values in (None, "all") else [name for name in values.split(",") if name]
