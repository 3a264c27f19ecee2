"""Rows of a study as the rules of claims see them: which are selected, their standard errors, and their names."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from vaescope.studies.results import JsonTable

# Columns of a row that do not say what its number is of.
VALUES = ("ours", "sd", "seeds", "published", "published_sd", "published_seeds", "difference_se", "note")
MEASURES = ("measure", "quantity")  # columns that are named where a study has several
ERRORS = 2.0  # standard errors up to which two means agree
NUMERIC = re.compile(r"-?\d[\d.]*[a-d]?")

Where = Mapping[str, object]
Pair = tuple[JsonTable, JsonTable]


@dataclass(frozen=True)
class Number:
    """A mean and its standard error; 0 where no spread is known."""

    value: float
    error: float = 0.0

    def minus(self, other: Number) -> Number:
        """The difference and its standard error."""
        return Number(self.value - other.value, math.hypot(self.error, other.error))

    def times(self, factor: float) -> Number:
        """The multiple."""
        return Number(factor * self.value, factor * self.error)

    def is_above(self, other: Number) -> bool:
        """Whether it is larger by more than two standard errors of the difference."""
        difference = self.minus(other)
        return difference.value > 0 and difference.value > ERRORS * difference.error


def ours(row: JsonTable) -> Number:
    """Our number with its standard error over seeds."""
    error = row["sd"] / math.sqrt(row["seeds"]) if row["sd"] and row["seeds"] else 0.0
    return Number(row["ours"], error)


def theirs(row: JsonTable) -> Number:
    """The published number; its standard error is over as many runs as ours where the source does not say."""
    runs = row.get("published_seeds") or row["seeds"]
    return Number(row["published"], row["published_sd"] / math.sqrt(runs) if row["published_sd"] and runs else 0.0)


def standard_errors_apart(row: JsonTable) -> float | None:
    """How many standard errors of the difference ours lies from the published number, which must have a spread."""
    if row["ours"] is None or row["published"] is None or not row["published_sd"]:
        return None
    difference = ours(row).minus(theirs(row))
    return difference.value / difference.error


def measured(rows: Sequence[JsonTable], where: Where) -> list[JsonTable]:
    """The rows with a number of ours and these values; a tuple lists several allowed values."""
    return [row for row in rows if row["ours"] is not None and _matches(row, where)]


def groups(rows: Sequence[JsonTable], by: Sequence[str]) -> list[list[JsonTable]]:
    """The rows by the values of the columns `by`, in order of first appearance."""
    found: dict[tuple[object, ...], list[JsonTable]] = {}
    for row in rows:
        found.setdefault(values_of(row, by), []).append(row)
    return list(found.values())


def pairs(rows: Sequence[JsonTable], one: Where, other: Where, by: Sequence[str]) -> list[Pair]:
    """Each row of the one side with those of the other that are equal in the columns `by`."""
    return [
        (first, second)
        for first in measured(rows, one)
        for second in measured(rows, other)
        if first is not second and values_of(first, by) == values_of(second, by)
    ]


def values_of(row: JsonTable, by: Sequence[str]) -> tuple[object, ...]:
    """The values of some columns."""
    return tuple(row.get(name) for name in by)


def name_of(row: JsonTable, among: Sequence[JsonTable], rows: Sequence[JsonTable], but: Sequence[str] = ()) -> str:
    """What tells a row from the other selected ones, and its measure where the study has several."""
    return _words(row, lambda name: name not in but and (_varies(name, among) or _is_measure(name, rows)))


def name_of_group(row: JsonTable, by: Sequence[str], rows: Sequence[JsonTable], among: Sequence[JsonTable]) -> str:
    """What tells a group of rows from the others, and the measure of its numbers where the study has several."""
    return _words(row, lambda name: (name in by and _varies(name, among)) or _is_measure(name, rows))


def name_of_pair(pair: Pair, by: Sequence[str], rows: Sequence[JsonTable], among: Sequence[Pair]) -> str:
    """What both rows have in common and other pairs have not, and the measure of both where the study has several."""
    firsts, (one, other) = [first for first, _ in among], pair
    return _words(
        one,
        lambda name: (
            (name in by and _varies(name, firsts)) or (_is_measure(name, rows) and one.get(name) == other.get(name))
        ),
    )


def mean_and_subject(row: JsonTable, other: JsonTable) -> str:
    """A number, and in brackets what tells its row from another."""
    subject = _words(row, lambda name: row.get(name) != other.get(name))
    return f"{mean_text(row)} ({subject})" if subject else mean_text(row)


def mean_text(row: JsonTable) -> str:
    """Our number with its standard deviation."""
    spread = f" ± {row['sd']:.2g}" if row["sd"] else ""
    return f"{plain_number(row['ours'])}{spread}"


def published_text(row: JsonTable) -> str:
    """The published number with its standard deviation."""
    spread = f" ± {row['published_sd']:.2g}" if row["published_sd"] else ""
    return f"{row['published']:.4g}{spread}"


def plain_number(value: float) -> str:
    """A number as sentences have it: three digits, 0 for what is 0 to all purposes."""
    return "0" if abs(value) < 5e-7 else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def text_of(value: object) -> str:
    """A value of a column."""
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def sentence(name: str, said: str) -> str:
    """What is said of something that may have no name."""
    return f"{name}: {said}" if name else said


def _words(row: JsonTable, wanted: Callable[[str], bool]) -> str:
    """The values of the wanted columns; numbers with the name of their column."""
    words = []
    for name, value in row.items():
        if name not in VALUES and value not in (None, "none") and wanted(name):
            text = text_of(value)
            words.append(f"{name.replace('_', ' ')} {text}" if NUMERIC.fullmatch(text) else text)
    return " ".join(words)


def _matches(row: JsonTable, where: Where) -> bool:
    return all(row.get(name) in (value if isinstance(value, tuple) else (value,)) for name, value in where.items())


def _is_measure(name: str, rows: Sequence[JsonTable]) -> bool:
    return name in MEASURES and _varies(name, rows)


def _varies(name: str, rows: Sequence[JsonTable]) -> bool:
    return len({str(row.get(name)) for row in rows}) > 1
