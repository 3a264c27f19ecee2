"""A sweep as a file: TOML, in which a mistake is named with its place."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from vaescope.data import Dataset
from vaescope.errors import ConfigurationError, VaescopeError
from vaescope.runs.measurements import MeasurementSpec
from vaescope.sweeps.jobs import make_jobs
from vaescope.sweeps.specification import MEMBER, PARTS, SETTINGS, Sweep

# Section -> what it may hold; None for what is checked by what it describes.
SECTIONS: dict[str, tuple[str, ...] | None] = {
    "data": None,
    "model": (*(part for part in PARTS if part != "optimiser"), "initialisation", "latents"),
    "objective": None,
    "training": (
        *(name for name in SETTINGS if name not in PARTS and name != "initialisation"),
        *("optimiser", "learning_rate", "seed"),
    ),
    "grid": None,
    "measure": ("metrics", "items", "exclude", "seed"),
}
# What parts are built from checks numbers; that a number is none, Python says.
MISTAKES = (VaescopeError, TypeError)
PART = re.compile(r"""([\w-]+)|("[^"]*"|'[^']*')""")
_DOTTED = rf"(?:{PART.pattern.replace('(', '(?:')})"
HEADER = re.compile(rf"\s*\[\s*({_DOTTED}(?:\s*\.\s*{_DOTTED})*)\s*\]\s*(?:#.*)?$")
KEY = re.compile(rf"\s*({_DOTTED}(?:\s*\.\s*{_DOTTED})*)\s*=")
EXAMPLE = """[data]
name = "dsprites-small"

[model]
latents = 10

[objective]
name = "beta"

[training]
steps = 2000
learning_rate = 1e-3

[grid]
"objective.beta" = [1, 2, 4, 8]
seed = [0, 1, 2]

[measure]
metrics = ["mig", "dci"]
"""


def read_sweep(path: str | Path) -> Sweep:
    """The sweep that a file describes."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} must be a text file that can be read, it cannot: {error}.") from error
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} must be TOML: {error}.") from error
    return _Reader(str(path), text, tables).sweep()


class _Reader:
    """Tables of a file, and where in it each entry stands."""

    def __init__(self, path: str, text: str, tables: Mapping[str, Any]) -> None:
        self.path, self.lines, self.tables = path, _lines(text), tables
        # Data are opened once, however many combinations are tried.
        self.opened: dict[str, Dataset] = {}

    def sweep(self) -> Sweep:
        self._check_sections()
        entries = {
            f"{section}.{name}": value
            for section in ("data", "model", "objective", "training")
            for name, value in self.tables.get(section, {}).items()
        }
        grid = {f"grid.{place}": values for place, values in _flat(self.tables.get("grid", {})).items()}
        for entry, values in grid.items():
            self._checked(entry, partial(Sweep, "", grid={entry.removeprefix("grid."): values}))
        for name, value in self.tables.get("measure", {}).items():
            self._checked(f"measure.{name}", partial(MeasurementSpec, **{name: value}))
        first = {entry: values[:1] for entry, values in grid.items()}
        self._check_first(entries, first)
        for entry, values in grid.items():
            for value in values[1:]:
                self._checked(entry, partial(self._try, entries, {**first, entry: [value]}))
        sweep = self._made(entries, grid)
        for data in self.opened.values():
            self._checked("measure.metrics", partial(sweep.measure.check, data))
        return sweep

    def _check_first(self, entries: dict[str, Any], grid: dict[str, Any]) -> None:
        """The first combination must be possible; if it is not, the entry without which it would be is to blame."""
        error = self._failure(entries, grid)
        if error is None:
            return
        for entry in sorted([*grid, *entries], key=_rank):
            if str(self._failure(_without(entries, entry), _without(grid, entry))) != str(error):
                raise self._mistake(entry, error) from error
        raise ConfigurationError(f"{self.path}: {error}") from error

    def _failure(self, entries: dict[str, Any], grid: dict[str, Any]) -> Exception | None:
        try:
            self._try(entries, grid)
        except MISTAKES as error:
            return error
        return None

    def _try(self, entries: dict[str, Any], grid: dict[str, Any]) -> None:
        # What is measured is nothing that these entries are to blame for.
        make_jobs(replace(self._made(entries, grid), measure=MeasurementSpec()), opened=self.opened)

    def _made(self, entries: dict[str, Any], grid: dict[str, Any]) -> Sweep:
        """The sweep of these entries, each 'section.name'."""
        tables: dict[str, dict[str, Any]] = {"data": {}, "model": {}, "objective": {}, "training": {}}
        for entry, value in entries.items():
            section, _, name = entry.partition(".")
            tables[section][name] = value
        data, told = tables["data"], {**tables["model"], **tables["training"]}
        return Sweep(
            data["name"] if list(data) == ["name"] else data,
            {name: value for name, value in told.items() if name not in MEMBER},
            {name: value for name, value in told.items() if name in MEMBER},
            {"name": "beta", **tables["objective"]},
            {entry.removeprefix("grid."): values for entry, values in grid.items()},
            MeasurementSpec(**self.tables.get("measure", {})),
        )

    def _check_sections(self) -> None:
        for section, table in self.tables.items():
            if section not in SECTIONS:
                raise ConfigurationError(
                    f"{self._place(section)}: a sweep has the sections {', '.join(SECTIONS)}; got {section!r}."
                )
            if not isinstance(table, Mapping):
                raise ConfigurationError(f"{self._place(section)}: {section} must be a section, [{section}].")
            known = SECTIONS[section]
            for name in table if known is not None else ():
                if name not in (known or ()):
                    raise ConfigurationError(
                        f"{self._place(f'{section}.{name}')}: [{section}] has {', '.join(known or ())}; got {name!r}."
                    )
        if "data" not in self.tables:
            raise ConfigurationError(f"{self.path}: a sweep must have a section [data] with a name.")
        if "name" not in self.tables["data"]:
            raise ConfigurationError(f"{self._place('data')}: data must have a name, or the path of a file or folder.")
        name = self.tables["data"]["name"]
        if not (isinstance(name, str) and name):
            raise ConfigurationError(
                f"{self._place('data.name')}: the name must be that of data, or the path of a file or folder, got "
                f"{name!r}. Numbers go into a file, and several sets of data into the grid: data = ['mnist', 'digits']."
            )

    def _checked(self, entry: str, work: Callable[[], Any]) -> None:
        """Do the work; its error with the place of the entry before it."""
        try:
            work()
        except MISTAKES as error:
            raise self._mistake(entry, error) from error

    def _mistake(self, entry: str, error: Exception) -> ConfigurationError:
        words = f"a value is of the wrong type ({error})." if isinstance(error, TypeError) else str(error)
        return ConfigurationError(f"{self._place(entry)}: {words}")

    def _place(self, entry: str) -> str:
        """The file, the line where the entry or else its section stands, and its name."""
        line = self.lines.get(entry, self.lines.get(entry.partition(".")[0]))
        return f"{self.path}, {entry}" if line is None else f"{self.path}, line {line}, {entry}"


def _lines(text: str) -> dict[str, int]:
    """The line of every section and entry, by its name with points between."""
    found: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := HEADER.match(line):
            section = _name(header[1])
            found.setdefault(section, number)
        elif key := KEY.match(line):
            found.setdefault(".".join(filter(None, [section, _name(key[1])])), number)
    return found


def _name(dotted: str) -> str:
    return ".".join(bare or quoted.strip("\"'") for bare, quoted in PART.findall(dotted))


def _flat(grid: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Places of a grid whose points are TOML's own: objective.beta = [1, 4] is a table in a table."""
    found: dict[str, Any] = {}
    for name, values in grid.items():
        found |= _flat(values, f"{before}{name}.") if isinstance(values, Mapping) else {f"{before}{name}": values}
    return found


def _without(table: Mapping[str, Any], entry: str) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name != entry}


def _rank(entry: str) -> int:
    """Whom to blame first: the grid says the most, of it an option, and a part cannot be without its name."""
    if entry.startswith("grid."):
        return 0 if entry.count(".") > 1 else 1
    return 4 if entry == "data.name" else 3 if entry == "objective.name" else 2
