"""What a source claims, and whether our numbers bear it out: verdicts that follow from rules alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from vaescope.studies.results import JsonTable

HOLDS, PART, FAILS, UNTESTED = "holds", "holds in part", "does not hold", "not tested here"
VERDICTS = (HOLDS, PART, FAILS, UNTESTED)
MAX_SAID = 3  # comparisons that a sentence names


@dataclass(frozen=True)
class Check:
    """One comparison: how much of it holds (0, 0.5 or 1), and its numbers in words."""

    held: float
    said: str


class Rule(Protocol):
    """How a claim is tested on the rows of a study (see `vaescope.studies.rules`)."""

    def checks(self, rows: Sequence[JsonTable]) -> Sequence[Check]:
        """Every comparison that the measured rows allow; none where nothing was measured."""


@dataclass(frozen=True)
class StudyClaim:
    """A statement of a source and the rule that tests it.

    Attributes:
        says: What the source says, in one sentence.
        where: Where it says so: 'section 6.4.1, figure 6.5'.
        rule: Judges the rows of the study.
        enough: Share of the comparisons that must hold for the claim to hold. Below 1 for claims about most cases.
        aside: What the rule leaves out or assumes, as a sentence.
    """

    says: str
    where: str
    rule: Rule
    enough: float = 1.0
    aside: str = ""

    def judge(self, rows: Sequence[JsonTable]) -> Judged:
        """The verdict on the rows, and why."""
        checks = tuple(self.rule.checks(rows))
        verdict = verdict_of([check.held for check in checks], self.enough)
        why = f"{reasons(checks)} {self.aside}".strip() if checks else self.aside or "It was not measured."
        return Judged(self, verdict, why)

    def untested(self, why: str) -> Judged:
        """The claim without a test, and why."""
        return Judged(self, UNTESTED, why)


@dataclass(frozen=True)
class Judged:
    """A claim, its verdict and the reason in one or two sentences."""

    claim: StudyClaim
    verdict: str
    why: str

    def plain(self) -> JsonTable:
        """For machines."""
        return {"claim": self.claim.says, "where": self.claim.where, "verdict": self.verdict, "why": self.why}


def verdict_of(held: Sequence[float], enough: float = 1.0) -> str:
    """The verdict on comparisons that hold fully (1), partly (0.5) or not (0)."""
    if not held:
        return UNTESTED
    if not any(held):
        return FAILS
    return HOLDS if sum(one == 1 for one in held) >= enough * len(held) else PART


def reasons(checks: Sequence[Check]) -> str:
    """The comparisons in one sentence: all where they are few, else how many hold and those that do not."""
    missed = [check.said for check in checks if check.held < 1]
    if len(checks) <= MAX_SAID:
        return f"{'; '.join(check.said for check in checks)}."
    if not missed:
        return f"All {len(checks)} comparisons agree, among them {checks[0].said}; and {checks[-1].said}."
    named = "; ".join(missed[:MAX_SAID])
    more = f"; and {len(missed) - MAX_SAID} more" if len(missed) > MAX_SAID else ""
    return f"{len(checks) - len(missed)} of {len(checks)} comparisons agree. Those that do not: {named}{more}."


def tally(verdicts: Iterable[str]) -> str:
    """How many claims hold, and how many do not: '3 claims: 2 hold, 1 is not tested here'."""
    counts = Counter(verdicts)
    total = counts.total()
    if not total:
        return "no claim was stated"
    words = {
        HOLDS: ("holds", "hold"),
        PART: ("holds in part", "hold in part"),
        FAILS: ("does not hold", "do not hold"),
        UNTESTED: ("is not tested here", "are not tested here"),
    }
    parts = [f"{counts[one]} {words[one][counts[one] != 1]}" for one in VERDICTS if counts[one]]
    return f"{total} claim{'' if total == 1 else 's'}: {', '.join(parts)}"
