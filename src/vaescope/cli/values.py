"""Text of the command line as values: lists of numbers and names, and options of parts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeVar

from vaescope.checks import check_plain, too_deep
from vaescope.errors import ConfigurationError, quoted

Number = TypeVar("Number", int, float)
Table = dict[str, object]


def tables_of(settings: Sequence[str] | None, parts: Sequence[str]) -> dict[str, Table]:
    """The options of each part given by `--set`; a value is JSON, or else text."""
    tables: dict[str, Table] = {part: {} for part in parts}
    for setting in settings or []:
        path, equals, value = setting.partition("=")
        part, dot, option = path.partition(".")
        if not (equals and dot and option and part in parts):
            known = f"PART one of {', '.join(parts)}" if len(parts) > 1 else f"PART {parts[0]}"
            raise ConfigurationError(f"--set must be PART.OPTION=VALUE with {known}, got {quoted(setting)}.")
        tables[part][option] = _value(f"--set {path}", value)
    return tables


def _value(name: str, text: str) -> object:
    """A value of `--set`: JSON, or else text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    except RecursionError as error:
        raise too_deep(name) from error
    check_plain(name, value)
    return value


def numbers(option: str, values: str, kind: Callable[[str], Number]) -> list[Number]:
    """The numbers of a comma-separated list."""
    try:
        return [kind(value) for value in values.split(",")]
    except ValueError:
        wanted = "whole numbers" if kind is int else "numbers"
        raise ConfigurationError(f"--{option} must be {wanted} separated by commas, got {quoted(values)}.") from None


def names(values: str | None) -> str | list[str] | None:
    """The names of a comma-separated list; 'all' and None are returned unchanged."""
    return values if values in (None, "all") else [name for name in values.split(",") if name]


def number(text: str) -> float:
    """A number, without a point if it is whole."""
    value = float(text)
    return int(value) if value.is_integer() else value


def one_or_several(values: Sequence[object]) -> object:
    """The only value of a list, or the list."""
    return values[0] if len(values) == 1 else values
