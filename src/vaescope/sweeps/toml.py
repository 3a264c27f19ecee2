"""Sweep files: TOML that is checked entry by entry; errors have the line of the entry."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vaescope.checks import check_plain, check_run_count, too_deep
from vaescope.data import DataLike, Dataset, open_dataset
from vaescope.errors import ConfigurationError, VaescopeError
from vaescope.models import AnyArchitecture, check_latents
from vaescope.runs.measurements import MeasurementSpec
from vaescope.runs.options import FitOptions
from vaescope.sweeps.specification import MEMBER_KEYS, SETTING_KEYS, Sweep, Trial, check_grid_entry

# The number of latents first: the default may be too large for the data.
MODEL_KEYS = ("latents", "model", "net", "posterior", "prior", "likelihood", "initialisation", "overcomplete")
# Section -> its keys, in the order in which they are checked; none: any key of its registry or data set.
SCHEMA: dict[str, tuple[str, ...]] = {
    "data": (),
    "model": MODEL_KEYS,
    "objective": (),
    "training": tuple(key for key in (*SETTING_KEYS, *MEMBER_KEYS) if key not in MODEL_KEYS),
    "grid": (),
    "measure": tuple(entry.name for entry in dataclasses.fields(MeasurementSpec)),
}
# Parts check their numbers; for a value of another type Python raises a TypeError.
MISTAKES = (VaescopeError, TypeError)
MAX_LINES = 1000  # maximum size of a file whose errors are reported with their lines


@dataclass(frozen=True)
class TomlEntry:
    """A value of the file, or the values of a key of the grid, and its path of TOML keys."""

    path: tuple[str, ...]
    values: list[Any]


def read_sweep(path: str | Path) -> Sweep:
    """The sweep that a file describes; errors have the file, the line and the key."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigurationError(f"File not found: {path}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} must be a readable text file ({error}).") from error
    try:
        tables = tomllib.loads(text)
    except ValueError as error:  # also for a number with more digits than Python reads
        raise ConfigurationError(f"{path} must be TOML: {error}.") from error
    except RecursionError as error:
        raise too_deep(str(path)) from error
    check_plain(str(path), tables)
    return SweepFile(str(path), text, tables).sweep()


def line_of(text: str, path: tuple[str, ...]) -> int | None:
    """The line on which an entry of a TOML file begins: the first after which the file, read up to there, has it.

    None if there is no such entry, or if the file is too long to be read once for each of its lines.
    """
    lines = text.splitlines(keepends=True)
    if len(lines) > MAX_LINES:
        return None
    read = 0  # lines that end an entry
    for count in range(1, len(lines) + 1):
        try:
            table = tomllib.loads("".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            continue  # within a value of several lines
        if _has(table, path):
            return read + 1
        read = count
    return None


class SweepFile:
    """The tables of a sweep file and its text, which locates each entry."""

    def __init__(self, path: str, text: str, tables: Mapping[str, Any]) -> None:
        self.path, self.text, self.tables = path, text, tables
        self._opened: dict[str, Dataset] = {}
        self._architectures: dict[str, AnyArchitecture] = {}
        self._built: set[tuple[str, int]] = set()

    def sweep(self) -> Sweep:
        """Check every entry, then build the sweep."""
        self._check_sections()
        grid = {
            ".".join(path): TomlEntry(("grid", *path), values) for path, values in _flat(self.tables.get("grid", {}))
        }
        for key, entry in grid.items():
            with self._at(entry.path):
                check_grid_entry(key, entry.values)
        if grid:
            with self._at(("grid",)):
                check_run_count({key: len(entry.values) for key, entry in grid.items()})
        measure = self.tables.get("measure", {})
        for name, value in measure.items():
            with self._at(("measure", name)):
                MeasurementSpec(**{name: value})
        self._check_data(grid)
        self._check_entries(grid)
        data = self.tables["data"]
        given = {**self.tables.get("model", {}), **self.tables.get("training", {})}
        sweep = Sweep(
            data["name"] if list(data) == ["name"] else data,
            {name: value for name, value in given.items() if name in SETTING_KEYS},
            {name: value for name, value in given.items() if name in MEMBER_KEYS},
            {"name": "beta", **self.tables.get("objective", {})},
            {key: entry.values for key, entry in grid.items()},
            MeasurementSpec(**measure),
        )
        for opened in self._opened.values():
            with self._at(("measure", "metrics")):
                sweep.measure.check(opened)
        return sweep

    def _check_data(self, grid: Mapping[str, TomlEntry]) -> None:
        """The data must open; if they do not, the first option with which they fail is reported."""
        section = self.tables["data"]
        steps: list[tuple[tuple[str, ...], Mapping[str, Any]]]
        if "data" in grid:
            first = grid["data"].values[0]
            steps = [(grid["data"].path, first if isinstance(first, Mapping) else {"name": first})]
        else:
            steps = [(("data", name), {name: section[name]}) for name in _name_first(section)]
        for key, entry in grid.items():
            if key.startswith("data."):
                steps.append((entry.path, {key.removeprefix("data."): entry.values[0]}))
        try:
            self._open({name: value for _, options in steps for name, value in options.items()})
        except MISTAKES:
            source: dict[str, Any] = {}
            for path, options in steps:
                source.update(options)
                with self._at(path):
                    open_dataset(source)
            raise

    def _check_entries(self, grid: Mapping[str, TomlEntry]) -> None:
        """Add the entries one at a time: an error belongs to the entry added last.

        Then each further value of the grid replaces the first.
        """
        values: dict[str, Any] = {"data": self.tables["data"], "objective": {"name": "beta"}}
        values |= {key: entry.values[0] for key, entry in grid.items() if key.partition(".")[0] == "data"}
        entries = self._entries(grid)
        if "latents" not in entries:
            with self._at(("data",)):
                self._check_trial(values)
        for key, entry in entries.items():
            values[key] = entry.values[0]
            with self._at(entry.path):
                self._check_trial(values)
        for key, entry in grid.items():
            for value in entry.values[1:]:
                with self._at(entry.path):
                    self._check_trial({**values, key: value})

    def _entries(self, grid: Mapping[str, TomlEntry]) -> dict[str, TomlEntry]:
        """Key -> entry, in the order of the schema; an entry of the grid replaces that of a section."""
        found: dict[str, TomlEntry] = {}
        for section in ("model", "objective", "training"):
            table = self.tables.get(section, {})
            for name in SCHEMA[section] or _name_first(table):
                key = name if SCHEMA[section] else f"{section}.{name}"
                if name in table and key.partition(".")[0] not in grid:
                    found[key] = TomlEntry((section, name), [table[name]])
        # Whole parts first: an option belongs to the part that was chosen.
        of_grid = sorted((key for key in grid if key.partition(".")[0] != "data"), key=lambda key: "." in key)
        latents = {"latents": grid["latents"]} if "latents" in grid else {}
        return {**latents, **found, **{key: grid[key] for key in of_grid}}

    def _check_trial(self, values: Mapping[str, Any]) -> None:
        """Raise an error unless a run with these values is valid."""
        trial = Trial.of(values)
        data, latents = self._open(trial.data), trial.member.latents
        check_latents(latents, data.shape, bool(trial.settings.get("overcomplete", False)))
        settings = json.dumps([trial.data, trial.settings], sort_keys=True, default=str)
        if settings not in self._architectures:
            (configuration,) = FitOptions.of(trial.settings).configurations(data, [trial.member])
            self._architectures[settings] = configuration.architecture
        if (settings, latents) not in self._built:
            self._architectures[settings].check_size(data.shape, latents)
            self._built.add((settings, latents))

    def _open(self, source: DataLike) -> Dataset:
        key = json.dumps(source if isinstance(source, Mapping) else {"name": source}, sort_keys=True, default=str)
        if key not in self._opened:
            self._opened[key] = open_dataset(source)
        return self._opened[key]

    def _check_sections(self) -> None:
        for section, table in self.tables.items():
            if section not in SCHEMA:
                raise self._mistake((section,), f"a sweep has the sections {', '.join(SCHEMA)}; got {section!r}.")
            if not isinstance(table, Mapping):
                raise self._mistake((section,), f"{section} must be a section: write [{section}].")
            known = SCHEMA[section]
            for name in table if known else ():
                if name not in known:
                    raise self._mistake((section, name), f"[{section}] has {', '.join(known)}; got {name!r}.")
        if "data" not in self.tables:
            raise ConfigurationError(f"{self.path}: a sweep must have a section [data] with a name.")
        if "name" not in self.tables["data"]:
            raise self._mistake(("data",), "[data] must have a name, which may be the path of a file or folder.")
        name = self.tables["data"]["name"]
        if not (isinstance(name, str) and name):
            raise self._mistake(
                ("data", "name"),
                f"name must be the name of a data set or the path of a file or folder, got {name!r}. Several data sets "
                "go into the grid: data = ['mnist', 'digits'].",
            )

    @contextmanager
    def _at(self, path: tuple[str, ...]) -> Iterator[None]:
        """Add the location of an entry to an error."""
        try:
            yield
        except MISTAKES as error:
            words = f"a value has the wrong type ({error})." if isinstance(error, TypeError) else str(error)
            raise self._mistake(path, words) from error

    def _mistake(self, path: tuple[str, ...], words: str) -> ConfigurationError:
        line = line_of(self.text, path) or line_of(self.text, path[:1])
        place = ".".join(path) if line is None else f"line {line}, {'.'.join(path)}"
        return ConfigurationError(f"{self.path}, {place}: {words}")


def _has(table: object, path: tuple[str, ...]) -> bool:
    for key in path:
        if not isinstance(table, Mapping) or key not in table:
            return False
        table = table[key]
    return True


def _name_first(table: Mapping[str, Any]) -> list[str]:
    return sorted(table, key=lambda name: name != "name")


def _flat(grid: Mapping[str, Any], before: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """The entries of a grid by their paths: objective.beta = [1, 4] is a table in a table."""
    found: list[tuple[tuple[str, ...], Any]] = []
    for name, values in grid.items():
        path = (*before, name)
        found += _flat(values, path) if isinstance(values, Mapping) else [(path, values)]
    return found
