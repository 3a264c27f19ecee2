"""Names of compared models: the settings in which they differ, such as 'beta 4 · seed 0'."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.runs import Run
from vaescope.runs.rows import ARCHITECTURE_PARTS, INTERVALS, NAME_COLUMNS, summary_row
from vaescope.runs.store import subject_name
from vaescope.runs.type_counts import TYPES_FROM, TYPES_ITEMS

SEPARATOR = " · "
ID_LENGTH = 8  # characters of an id that tell runs apart
NOT_SETTINGS = ("id", "status", "step", "items", *VARIABLE_TYPES, TYPES_ITEMS, TYPES_FROM, *INTERVALS)
# Their values are names that need no word in front.
NAMED = ("data", *ARCHITECTURE_PARTS, *NAME_COLUMNS)
ORIGINS = {"pruned_from": "pruned", "started_from": "fine-tuned"}

Settings = Mapping[str, object]


def settings_of_runs(runs: Sequence[Run | None]) -> list[Settings]:
    """The settings of each run that determine the model; empty for models that are not runs."""
    rows = [{} if run is None else summary_row(run.record, []) for run in runs]
    return [{name: value for name, value in row.items() if name not in NOT_SETTINGS} for row in rows]


def differing(settings: Sequence[Settings]) -> list[str]:
    """The names of the settings in which runs differ, the seed last."""
    known = [one for one in settings if one]
    names = dict.fromkeys(name for one in known for name in one)
    found = [name for name in names if len({one.get(name) for one in known}) > 1]
    return sorted(found, key=lambda name: name == "seed")


def model_names(subjects: Sequence[object], runs: Sequence[Run | None]) -> tuple[str, ...]:
    """One name per model: what differs for runs, the shortest distinct path for files, the class for other models."""
    files = [str(one) for one, run in zip(subjects, runs, strict=True) if run is None and _is_path(one)]
    short = dict(zip(files, _short_paths(files), strict=True))
    by_settings = iter(_distinct_names([one for one in settings_of_runs(runs) if one]))
    names = []
    for subject, run in zip(subjects, runs, strict=True):
        if run is None:
            names.append(short[str(subject)] if _is_path(subject) else subject_name(subject))
        else:
            names.append(next(by_settings) or _run_name(run))
    repeated = Counter(names)
    for place, run in enumerate(runs):
        if run is not None and repeated[names[place]] > 1 and names[place] != _run_name(run):
            names[place] += f"{SEPARATOR}{_run_name(run)}"
    return numbered(names)


def numbered(names: Sequence[str]) -> tuple[str, ...]:
    """The names, with a number after those that occur more than once."""
    return tuple(
        name if names.count(name) == 1 else f"{name} ({names[: place + 1].count(name)})"
        for place, name in enumerate(names)
    )


def setting_words(name: str) -> str:
    """A setting as people say it: 'learning rate', 'encoder widths'."""
    return name.rpartition(".")[2].replace("_", " ")


def _distinct_names(settings: Sequence[Settings]) -> list[str]:
    """Names of runs from as few settings as tell them apart; empty if no setting differs."""
    chosen: list[str] = []
    groups = 1
    for name in differing(settings):
        found = len({tuple(one.get(part) for part in (*chosen, name)) for one in settings})
        if found > groups:
            chosen, groups = [*chosen, name], found
    return [_joined([(name, one[name]) for name in chosen if one.get(name) is not None]) for one in settings]


def _joined(parts: Sequence[tuple[str, object]]) -> str:
    """'beta 4 · seed 0'; the objective is left out if a strength has its name."""
    strengths = {name for name, _ in parts}
    kept = [(name, value) for name, value in parts if not (name == "objective" and value in strengths)]
    return SEPARATOR.join(_setting(name, value) for name, value in kept)


def _setting(name: str, value: object) -> str:
    if name in ORIGINS:
        return f"{ORIGINS[name]} from {str(value)[:ID_LENGTH]}"
    if name == "objective":
        return f"{str(value).replace('_', ' ')} objective"
    if name in NAMED:
        return str(value).replace("_", " ")
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{shown} {name}" if name in ("latents", "steps") else f"{setting_words(name)} {shown}"


def _run_name(run: Run) -> str:
    return f"run {run.id[:ID_LENGTH]}"


def _is_path(subject: object) -> bool:
    return isinstance(subject, str | PurePath)


def _short_paths(paths: Sequence[str]) -> list[str]:
    """The shortest ends of paths that tell them apart: 'one.npz', or 'a/one.npz' and 'b/one.npz'."""
    parts = [PurePath(path).parts for path in paths]
    distinct = len(set(parts))
    for count in range(1, max(map(len, parts), default=1) + 1):
        ends = [PurePath(*one[-count:]).as_posix() for one in parts]
        if len(set(ends)) == distinct:
            return ends
    return list(paths)
