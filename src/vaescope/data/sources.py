"""The source of a data set, from which it can be opened again: a name or a path, options, and the selected items."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from vaescope.checks import is_whole
from vaescope.errors import ConfigurationError, quoted
from vaescope.terminal import on_command_line

if TYPE_CHECKING:
    from vaescope.data.dataset import Dataset

Source: TypeAlias = str | dict[str, object]
"""A name or a path, or a table {"name": name or path, option: value, ...} that JSON can hold."""

SUBSET = "subset"  # the option of every data set that selects items
# The options that commands take by their own names; all others are written `--set data.OPTION=VALUE`.
SHORT_OPTIONS = ("size", "label", "factors", "columns", "drop", "missing", "standardise", "range", "layer")
STEPS = "a list of {'draw': number, 'seed': seed} and {'split': held_out, 'seed': seed, 'part': 0 or 1}"


def source_of(name: str, options: Mapping[str, object]) -> Source | None:
    """The source of data opened with options; None if JSON cannot represent the options, such as arrays of labels."""
    if not options:
        return name
    try:
        return {"name": name, **{option: _plain(value) for option, value in options.items()}}
    except TypeError:
        return None


def source_with(source: Source | None, option: str, value: object) -> Source | None:
    """The source with one option more."""
    if source is None:
        return None
    return {**({"name": source} if isinstance(source, str) else source), option: value}


def source_of_part(source: Source | None, step: Mapping[str, object]) -> Source | None:
    """The source of some items of a data set, which `take` selects again."""
    if source is None:
        return None
    table = {"name": source} if isinstance(source, str) else source
    steps = table.get(SUBSET, [])
    assert isinstance(steps, list)
    return {**table, SUBSET: [*steps, {name: _plain(value) for name, value in step.items()}]}


def take(data: Dataset, steps: object) -> Dataset:
    """The items that steps of `draw` and `split` select, one after another."""
    if not isinstance(steps, list | tuple):
        raise _not_steps(steps)
    for step in steps:
        match step:
            case {"draw": count, "seed": seed, **rest} if not rest and is_whole(count, 1) and is_whole(seed, 0):
                data = data.draw(count, seed)
            case {"split": int() | float() as share, "seed": seed, "part": 0 | 1 as part, **rest} if (
                not rest and is_whole(seed, 0)
            ):
                data = data.split(share, seed)[part]
            case _:
                raise _not_steps(step)
    return data


def flags_of(source: Source | None) -> list[str]:
    """The options of a source as command-line arguments."""
    options = {} if source is None or isinstance(source, str) else source
    return [word for name, value in options.items() if name != "name" for word in _flag(name, value)]


def option_name(option: str) -> str:
    """The name of an option of `open_dataset` in the interface in use."""
    if not on_command_line():
        return option
    return f"--{option}" if option in SHORT_OPTIONS else f"--set data.{option}"


def check_flag(option: str, value: object) -> None:
    """Raise an error unless an option is True, False or left out."""
    if not (value is None or isinstance(value, bool)):
        raise ConfigurationError(f"{option_name(option)} must be True or False, got {quoted(value)}.")


def keyword(option: str) -> str:
    """An option of `open_dataset` without a value, as it is written in the interface in use."""
    return option_name(option) if on_command_line() else f"{option}="


def setting(option: str, value: object) -> str:
    """An option of `open_dataset` with its value, as it is written in the interface in use."""
    return " ".join(_flag(option, value)) if on_command_line() else f"{option}={value!r}"


def passing(option: str, value: object) -> str:
    """How to pass an option of `open_dataset`: the middle of a sentence that starts with "Pass"."""
    return setting(option, value) if on_command_line() else f"{setting(option, value)} to open_dataset"


def _flag(option: str, value: object) -> list[str]:
    """An option and its value as command-line arguments."""
    parts = list(value) if isinstance(value, list | tuple) else [value]
    plain = value is True or all(isinstance(part, str | int | float) and "," not in str(part) for part in parts)
    if option not in SHORT_OPTIONS or value is False or not plain:
        return ["--set", f"data.{option}={json.dumps(value)}"]
    return [f"--{option}"] if value is True else [f"--{option}", ",".join(map(str, parts))]


def _not_steps(value: object) -> ConfigurationError:
    return ConfigurationError(f"{SUBSET} must be {STEPS}, got {quoted(value)}.")


def _plain(value: object) -> object:
    """The value as JSON types; a TypeError if there are none."""
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"JSON has no {type(value).__name__}")
