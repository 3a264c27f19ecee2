"""Variants by name: one registry for each kind of part, filled by this package and by installed plug-ins."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from vaescope.errors import ConfigurationError, unknown_name


class Part(Protocol):
    """A frozen data class that describes a part of a model or of its training; its fields are its options."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


Variant = TypeVar("Variant")
AnyPart = TypeVar("AnyPart", bound=Part)
# A part as users give it: an instance, its name, or {"name": ..., option: value}.
PartSpec: TypeAlias = AnyPart | str | Mapping[str, object]


@dataclass(frozen=True)
class Entry(Generic[Variant]):
    """A registered variant.

    Attributes:
        summary: What it is, in a few words.
        source: The document and equation that it implements.
    """

    name: str
    summary: str
    source: str
    variant: Variant


class Registry(Mapping[str, Variant]):
    """Variants of one kind by name.

    A plug-in package adds a variant through an entry point of the group `group`, whose name is the variant's name and
    whose value is the registered object. Its name comes from the metadata; the package is imported on first use.
    """

    def __init__(self, kind: str, group: str, contract: type | None = None) -> None:
        """Make an empty registry.

        Args:
            kind: The word for a variant in messages.
            group: The group of entry points.
            contract: The class that every variant must inherit from; default: any object.
        """
        self.kind, self.group, self.contract = kind, group, contract
        self._entries: dict[str, Entry[Variant]] = {}

    def register(self, name: str, *, summary: str, source: str = "") -> Callable[[Variant], Variant]:
        """Decorate a class or function to register it under a name."""

        def enter(variant: Variant) -> Variant:
            if self.contract is not None and self.contract not in getattr(variant, "__mro__", ()):
                raise ConfigurationError(
                    f"{self.kind} {name!r} must be a class that inherits from {self.contract.__name__} of "
                    f"{self.contract.__module__}, got {variant!r}."
                )
            known = self._entries.get(name)
            if known is not None and known.variant is not variant:
                raise ConfigurationError(f"{self.kind} {name!r} is registered already, by {known.variant!r}.")
            self._entries[name] = Entry(name, summary, source, variant)
            return variant

        return enter

    def unregister(self, name: str) -> None:
        """Remove a variant that was registered in this process."""
        del self._entries[name]

    def entry(self, name: str) -> Entry[Variant]:
        """The variant with its summary and source; an unknown name raises an error that lists the known ones."""
        if name not in self._entries and name in self._plug_ins:
            variant = self._plug_ins[name].load()
            if name not in self._entries:
                self.register(name, summary=_first_line(variant))(variant)
        if name not in self._entries:
            raise unknown_name(self.kind, name, self)
        return self._entries[name]

    def distribution(self, name: str) -> str | None:
        """The plug-in package that a variant comes from, as 'name version'; None for built-in variants."""
        found = self._plug_ins[name].dist if name in self._plug_ins else None
        return None if found is None else f"{found.name} {found.version}"

    @cached_property
    def _plug_ins(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self.group)}

    def __getitem__(self, name: str) -> Variant:
        return self.entry(name).variant

    def __contains__(self, name: object) -> bool:
        return name in self._entries or name in self._plug_ins

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._entries, *self._plug_ins}))

    def __len__(self) -> int:
        return len({*self._entries, *self._plug_ins})


class PartRegistry(Registry[type[AnyPart]], Generic[AnyPart]):
    """Variants that are data classes: instances are built from names and tables, and written as tables."""

    def resolve(self, value: PartSpec[AnyPart]) -> AnyPart:
        """An instance from a name, from `{"name": ..., option: value}`, or the instance itself."""
        if isinstance(value, str):
            value = {"name": value}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return value
        if not isinstance(value, Mapping):
            raise ConfigurationError(
                f"{self.kind} must be a name, a table of a name and options, or an instance, got "
                f"{type(value).__name__}."
            )
        if "name" not in value:
            raise ConfigurationError(f"{self.kind} given as a table must have a 'name', got {dict(value)!r}.")
        variant = self[str(value["name"])]
        build: Callable[..., AnyPart] = variant
        options = {key: _frozen(option) for key, option in value.items() if key != "name"}
        known = {field.name for field in dataclasses.fields(variant)}
        for option in options:
            if option not in known:
                takes = ", ".join(sorted(known)) or "none"
                raise ConfigurationError(
                    f"{self.kind} {value['name']!r} takes the options {takes}; got {option!r}. "
                    "Remove it or correct its name."
                )
        return build(**options)

    def plain(self, part: AnyPart) -> dict[str, object]:
        """The table from which `resolve` builds an equal instance: its name and its options."""
        return {"name": self.name_of(part), **{f.name: getattr(part, f.name) for f in dataclasses.fields(part)}}

    def name_of(self, part: object) -> str:
        """The name under which the class of an instance is registered."""
        for name, entry in self._entries.items():
            if type(part) is entry.variant:
                return name
        table = self.group.rpartition(".")[2].upper()
        raise ConfigurationError(
            f"{self.kind} must be one of {', '.join(self)} to be kept in a run, got {type(part).__name__}. "
            f"Register its class with the decorator @{table}.register(name, summary=...)."
        )


def lookup(table: Mapping[str, Variant], name: str, kind: str) -> Variant:
    """The entry of a plain table called `name`, or an error that lists the known names."""
    # Files may contain a list or a table here, which is not hashable.
    if not isinstance(name, str) or name not in table:
        raise unknown_name(kind, name, table)
    return table[name]


def _first_line(variant: object) -> str:
    return (variant.__doc__ or "").strip().partition("\n")[0]


def _frozen(value: object) -> object:
    """Lists, as in tables, turned into tuples, as in data classes."""
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
