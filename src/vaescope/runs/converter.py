"""Data classes to and from plain tables without coercion: 1 is an item, 1.0 a share, and each stays what it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TypeVar

import cattrs
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

from vaescope.runs.record import Additive

Value = TypeVar("Value")


def strict_converter() -> cattrs.Converter:
    """A converter that refuses values of another type, and unknown entries except those of an `Additive` record."""
    converter = cattrs.Converter(detailed_validation=False, forbid_extra_keys=True)
    converter.register_structure_hook_func(lambda kind: kind is object, lambda value, _: value)
    for kind in (str, bool, int):
        converter.register_structure_hook(kind, _of_type(kind))
    # A whole number is a number, too.
    for kinds in (float, float | int):
        converter.register_structure_hook(kinds, _of_type(int, float))
    converter.register_structure_hook(str | dict[str, object] | None, _of_type(str, dict, type(None)))
    _register_additive(converter)
    return converter


def _of_type(*kinds: type) -> Callable[[Value, object], Value]:
    """A hook that gives the value back unchanged if it is of one of the types; a truth value is no number."""

    def unchanged(value: Value, _: object) -> Value:
        if type(value) not in kinds:
            raise TypeError(f"{value!r} must be of type {' or '.join(kind.__name__ for kind in kinds)}")
        return value

    return unchanged


def _register_additive(converter: cattrs.Converter) -> None:
    def is_additive(kind: object) -> bool:
        return isinstance(kind, type) and issubclass(kind, Additive)

    def reader(kind: type[Additive]) -> Callable[[Mapping[str, object], object], Additive]:
        read = make_dict_structure_fn(kind, converter)
        names = {entry.name for entry in dataclasses.fields(kind)} - {"unknown"}

        def hook(table: Mapping[str, object], _: object) -> Additive:
            known = {name: value for name, value in table.items() if name in names}
            unknown = {name: value for name, value in table.items() if name not in names}
            return read({**known, "unknown": unknown}, kind)

        return hook

    def writer(kind: type[Additive]) -> Callable[[Additive], dict[str, object]]:
        write = make_dict_unstructure_fn(kind, converter)

        def hook(record: Additive) -> dict[str, object]:
            table = write(record)
            unknown = table.pop("unknown")
            return {**table, **unknown}

        return hook

    converter.register_structure_hook_factory(is_additive, reader)
    converter.register_unstructure_hook_factory(is_additive, writer)
