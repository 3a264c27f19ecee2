"""Variants by name: look one up, build it from a name or a table, and write it down again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from vaescope.errors import ConfigurationError, unknown_name

Entry = TypeVar("Entry")


def lookup(table: Mapping[str, Entry], name: str, kind: str) -> Entry:
    """The entry called `name`, or an error that lists the known names."""
    if name not in table:
        raise unknown_name(kind, name, table)
    return table[name]


def resolve(table: Mapping[str, type[Any]], value: Any, kind: str) -> Any:
    """An instance from a name, from `{"name": ..., option: value}`, or the instance itself."""
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        return value
    options = {key: _frozen(option) for key, option in value.items() if key != "name"}
    if "name" not in value:
        raise ConfigurationError(f"{kind} given as a table must have a 'name', got {dict(value)!r}.")
    variant = lookup(table, value["name"], kind)
    known = {field.name for field in dataclasses.fields(variant)}
    for option in options:
        if option not in known:
            takes = ", ".join(sorted(known)) or "none"
            raise ConfigurationError(
                f"{kind} {value['name']!r} takes the options {takes}; got {option!r}. Remove it or correct its name."
            )
    return variant(**options)


def plain(table: Mapping[str, type[Any]], value: Any, kind: str) -> dict[str, Any]:
    """The table from which `resolve` builds an equal instance: its name and its options."""
    for name, variant in table.items():
        if type(value) is variant:
            return {"name": name, **{f.name: getattr(value, f.name) for f in dataclasses.fields(value)}}
    raise ConfigurationError(
        f"{kind} must be one of {', '.join(sorted(table))} to be kept in a run, got {type(value).__name__}. "
        f"Register it first: add it to the table of its package under a name."
    )


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
