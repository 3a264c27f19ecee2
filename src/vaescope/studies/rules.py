"""The rules that claims are tested with; each compares the rows of a study and gives the numbers that it rests on.

A comparison of two means counts as a difference where it exceeds two standard errors of that difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from vaescope.studies.claims import Check, Rule
from vaescope.studies.numbers import (
    ERRORS,
    Where,
    groups,
    mean_and_subject,
    mean_text,
    measured,
    name_of,
    name_of_group,
    name_of_pair,
    ours,
    pairs,
    plain_number,
    published_text,
    sentence,
    standard_errors_apart,
    text_of,
    theirs,
    values_of,
)
from vaescope.studies.results import JsonTable

Rows = Sequence[JsonTable]
Compare = Callable[[JsonTable, JsonTable], tuple[bool, str]]


def _pair_checks(rows: Rows, one: Where, other: Where, by: Sequence[str], compare: Compare) -> list[Check]:
    """A check for each pair of rows; `compare` says whether it holds, and its numbers in words."""
    found = pairs(rows, one, other, by)
    checks = []
    for pair in found:
        holds, said = compare(*pair)
        checks.append(Check(float(holds), sentence(name_of_pair(pair, by, rows, found), said)))
    return checks


@dataclass(frozen=True)
class AsPublished:
    """Numbers as published: within two standard errors of the difference, and `within` or the share `about` more.

    The standard error has both sides' standard deviations. Where the source does not say over how many runs its own
    is, it counts as over as many as ours.
    """

    where: Where = field(default_factory=dict)
    within: float = 0.0
    about: float = 0.0

    def checks(self, rows: Rows) -> list[Check]:
        """A check for each number that both sides have."""
        both = [row for row in measured(rows, self.where) if row["published"] is not None]
        checks = []
        for row in both:
            difference, known = ours(row).minus(theirs(row)), theirs(row).value
            allowed = ERRORS * difference.error + self.within + self.about * abs(known)
            distance = standard_errors_apart(row)
            apart = "" if distance is None else f", {abs(distance):.1f} standard errors apart"
            said = f"{mean_text(row)} where {published_text(row)} is published{apart}"
            checks.append(Check(float(abs(difference.value) <= allowed), sentence(name_of(row, both, rows), said)))
        return checks


@dataclass(frozen=True)
class Trend:
    """Numbers fall (or rise) along the column `x` in each group of rows that are equal in the columns `by`.

    A group holds fully if its last number is beyond its first by two standard errors and no step goes the other way by
    as much; it holds in part if only the former is so.
    """

    x: str
    falls: bool
    where: Where = field(default_factory=dict)
    by: tuple[str, ...] = ()

    def checks(self, rows: Rows) -> list[Check]:
        """A check for each group with at least two numbers."""
        found = measured(rows, self.where)
        checks = []
        for group in groups(found, self.by):
            ordered = sorted(group, key=lambda row: float(row[self.x]))
            if len(ordered) > 1:
                held, said = self._judged(ordered)
                checks.append(Check(held, sentence(name_of_group(group[0], self.by, rows, found), said)))
        return checks

    def _judged(self, ordered: Rows) -> tuple[float, str]:
        first, last = ordered[0], ordered[-1]
        said = f"{self._at(first)} and {self._at(last)}"
        if not self._moves(first, last):
            return 0.0, said
        for one, other in pairwise(ordered):
            if self._moves(other, one):
                return 0.5, f"{said}, but the other way between {self._at(one)} and {self._at(other)}"
        return 1.0, said

    def _at(self, row: JsonTable) -> str:
        return f"{mean_text(row)} at {self.x.replace('_', ' ')} {text_of(row[self.x])}"

    def _moves(self, one: JsonTable, other: JsonTable) -> bool:
        return ours(one).is_above(ours(other)) if self.falls else ours(other).is_above(ours(one))


@dataclass(frozen=True)
class Larger:
    """The rows `one` have larger numbers than the rows `than` with the same values in the columns `by`.

    With `ratio`, larger than that multiple of the other.
    """

    one: Where
    than: Where
    by: tuple[str, ...] = ()
    ratio: float = 1.0

    def checks(self, rows: Rows) -> list[Check]:
        """A check for each pair."""
        return _pair_checks(rows, self.one, self.than, self.by, self._compare)

    def _compare(self, one: JsonTable, other: JsonTable) -> tuple[bool, str]:
        mine, bound = ours(one), ours(other).times(self.ratio)
        holds = mine.is_above(bound)
        words = "is above" if holds else "is not clearly above" if mine.value > bound.value else "is not above"
        times = "" if self.ratio == 1 else f"{self.ratio:g} times "
        return holds, f"{mean_and_subject(one, other)} {words} {times}{mean_and_subject(other, one)}"


@dataclass(frozen=True)
class Alike:
    """The rows `one` and `other` have equal numbers: within `within`, or the share `about` of the larger."""

    one: Where
    other: Where
    by: tuple[str, ...] = ()
    within: float = 0.0
    about: float = 0.0

    def checks(self, rows: Rows) -> list[Check]:
        """A check for each pair."""
        return _pair_checks(rows, self.one, self.other, self.by, self._compare)

    def _compare(self, one: JsonTable, other: JsonTable) -> tuple[bool, str]:
        largest = max(abs(one["ours"]), abs(other["ours"]))
        holds = abs(one["ours"] - other["ours"]) <= max(self.within, self.about * largest)
        return holds, f"{mean_and_subject(one, other)} and {mean_and_subject(other, one)}"


@dataclass(frozen=True)
class Closer:
    """The rows `one` and `other` are closer to each other among the rows `among` than among the rows `than`."""

    one: Where
    other: Where
    among: Where
    than: Where
    by: tuple[str, ...] = ()

    def checks(self, rows: Rows) -> list[Check]:
        """A check for each group of rows that are equal in the columns `by`."""
        near, far = (pairs(rows, {**self.one, **of}, {**self.other, **of}, self.by) for of in (self.among, self.than))
        named = [" ".join(map(text_of, of.values())) for of in (self.among, self.than)]
        reference = {values_of(one, self.by): abs(one["ours"] - other["ours"]) for one, other in far}
        checks = []
        for one, other in near:
            apart, before = abs(one["ours"] - other["ours"]), reference.get(values_of(one, self.by))
            if before is not None:
                said = f"{plain_number(apart)} apart ({named[0]}) and {plain_number(before)} ({named[1]})"
                name = name_of_pair((one, other), self.by, rows, near)
                checks.append(Check(float(apart < before), sentence(name, said)))
        return checks


@dataclass(frozen=True)
class AddsUp:
    """The numbers of the rows `one` and `other` with the same values in the columns `by` add up to `total`."""

    one: Where
    other: Where
    total: float
    within: float
    by: tuple[str, ...] = ()

    def checks(self, rows: Rows) -> list[Check]:
        """A check for each pair."""
        return _pair_checks(rows, self.one, self.other, self.by, self._compare)

    def _compare(self, one: JsonTable, other: JsonTable) -> tuple[bool, str]:
        expected = self.total - other["ours"]
        holds = abs(one["ours"] - expected) <= self.within
        return holds, f"{mean_text(one)} where {plain_number(expected)} is expected"


@dataclass(frozen=True)
class Steady:
    """The numbers of each group of rows that are equal in the columns `by` lie within `within` of one another."""

    where: Where
    within: float
    by: tuple[str, ...] = ()

    def checks(self, rows: Rows) -> list[Check]:
        """A check for each group of at least two numbers."""
        found = measured(rows, self.where)
        checks = []
        for group in groups(found, self.by):
            values = [float(row["ours"]) for row in group]
            if len(values) > 1:
                said = f"from {plain_number(min(values))} to {plain_number(max(values))}"
                name = name_of_group(group[0], self.by, rows, found)
                checks.append(Check(float(max(values) - min(values) <= self.within), sentence(name, said)))
        return checks


@dataclass(frozen=True)
class Between:
    """Every number lies between `low` and `high`."""

    where: Where
    low: float = -math.inf
    high: float = math.inf

    def checks(self, rows: Rows) -> list[Check]:
        """A check for each number."""
        found = measured(rows, self.where)
        return [
            Check(
                float(self.low <= row["ours"] <= self.high),
                sentence(name_of(row, found, rows), f"{mean_text(row)} (expected: {self._expected()})"),
            )
            for row in found
        ]

    def _expected(self) -> str:
        if math.isinf(self.low):
            return f"at most {self.high:g}"
        return f"at least {self.low:g}" if math.isinf(self.high) else f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Extreme:
    """Of the selected rows, the one with the values `at` has the lowest (or the highest) number."""

    where: Where
    at: Where
    lowest: bool = True

    def checks(self, rows: Rows) -> list[Check]:
        """One check: against the nearest of the other rows."""
        found = measured(rows, self.where)
        best = measured(found, self.at)
        others = [row for row in found if row not in best]
        if not best or not others:
            return []
        sign = 1 if self.lowest else -1
        one, other = best[0], min(others, key=lambda row: sign * float(row["ours"]))
        holds = ours(other).is_above(ours(one)) if self.lowest else ours(one).is_above(ours(other))
        named = (sentence(name_of(row, found, rows), mean_text(row)) for row in (one, other))
        return [Check(float(holds), " and ".join(named))]


@dataclass(frozen=True)
class Both:
    """Several rules: the comparisons of all of them count."""

    rules: tuple[Rule, ...]

    def checks(self, rows: Rows) -> list[Check]:
        """The checks of every rule."""
        return [check for rule in self.rules for check in rule.checks(rows)]


@dataclass(frozen=True)
class Once:
    """A rule whose rows read the same models again: all of its comparisons count as one."""

    rule: Rule

    def checks(self, rows: Rows) -> list[Check]:
        """One check, which holds fully if all do, and in part if some do."""
        checks = list(self.rule.checks(rows))
        if not checks:
            return []
        held = [check.held for check in checks]
        whole = 1.0 if all(one == 1 for one in held) else 0.5 if any(held) else 0.0
        shown = [check.said for check in checks if check.held < 1] or [checks[0].said, checks[-1].said]
        counted = f" ({len(checks)} comparisons of the same models, counted once)" if len(checks) > 1 else ""
        return [Check(whole, "; ".join(dict.fromkeys((shown[0], shown[-1]))) + counted)]


@dataclass(frozen=True)
class Untested:
    """Nothing here tests the claim; its `aside` says why."""

    def checks(self, rows: Rows) -> list[Check]:
        """No check."""
        return []
