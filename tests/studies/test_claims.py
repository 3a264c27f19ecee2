"""Claims of the sources: verdicts from comparisons, and claims of every study."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from vaescope.studies import STUDIES
from vaescope.studies.claims import (
    FAILS,
    HOLDS,
    PART,
    UNTESTED,
    VERDICTS,
    Check,
    StudyClaim,
    reasons,
    tally,
    verdict_of,
)
from vaescope.studies.results import JsonTable
from vaescope.studies.study import Study

DOCS = Path(__file__).parents[2] / "docs" / "studies"


@dataclass(frozen=True)
class Given:
    """A rule with the comparisons that it is given."""

    held: tuple[float, ...]

    def checks(self, rows: list[JsonTable]) -> list[Check]:
        return [Check(one, f"comparison {number}") for number, one in enumerate(self.held)]


@pytest.mark.parametrize(
    ("held", "enough", "verdict"),
    [
        ((), 1.0, UNTESTED),
        ((1, 1), 1.0, HOLDS),
        ((1, 0), 1.0, PART),
        ((0.5,), 1.0, PART),
        ((0, 0), 1.0, FAILS),
        ((1, 1, 1, 1, 0), 0.8, HOLDS),
        ((1, 1, 1, 0.5, 0), 0.8, PART),
        ((0,), 0.0, FAILS),
    ],
)
def test_a_verdict_follows_from_comparisons(held: tuple[float, ...], enough: float, verdict: str) -> None:
    assert verdict_of(held, enough) == verdict
    assert StudyClaim("Says.", "section 1", Given(held), enough).judge([]).verdict == verdict


def test_reasons_name_few_comparisons_and_count_many() -> None:
    few, many = Given((1, 0)).checks([]), Given((1, 1, 1, 1)).checks([])
    assert reasons(few) == "comparison 0; comparison 1."
    assert reasons(many) == "All 4 comparisons agree, among them comparison 0; and comparison 3."
    mixed = reasons(Given((1, 0, 0.5, 0, 0)).checks([]))
    assert mixed.startswith("1 of 5 comparisons agree. Those that do not: comparison 1; comparison 2; comparison 3;")
    assert mixed.endswith("and 1 more.")


def test_a_tally_counts_in_words() -> None:
    assert tally([HOLDS]) == "1 claim: 1 holds"
    assert tally([HOLDS, UNTESTED, HOLDS, FAILS]) == "3 claims: ".replace("3", "4") + (
        "2 hold, 1 does not hold, 1 is not tested here"
    )
    assert tally([]) == "no claim was stated"


@pytest.mark.parametrize(
    ("scale", "exact", "verdict"), [("quick", False, UNTESTED), ("quick", True, HOLDS), ("paper", False, HOLDS)]
)
def test_quick_numbers_test_nothing_but_where_nothing_is_trained(scale: str, exact: bool, verdict: str) -> None:
    claim = StudyClaim("Says.", "section 1", Given((1,)))
    study = Study("bonheme-table8.1", "Some", "Is it?", "", lambda context: None, exact, (claim,))  # type: ignore[arg-type,return-value]
    (judged,) = study.judge([], scale)
    assert judged.verdict == verdict
    if verdict == UNTESTED:
        assert "`vaescope reproduce bonheme-table8.1 --scale paper` (about 5 minutes on an H200" in judged.why


def test_every_study_states_claims_of_its_source() -> None:
    for study in STUDIES.values():
        assert study.claims, study.name
        for claim in study.claims:
            assert claim.says.endswith("."), claim.says
            assert claim.where, claim.says
            assert not claim.aside or claim.aside.endswith("."), claim.aside
            assert len(claim.says) < 260, claim.says


def test_claims_of_a_study_differ() -> None:
    for study in STUDIES.values():
        said = [claim.says for claim in study.claims]
        assert len(set(said)) == len(said), study.name


def test_every_rule_finds_rows_or_says_why_it_does_not() -> None:
    """A rule whose columns are misspelt would silently test nothing."""
    for study in STUDIES.values():
        plain = json.loads((DOCS / f"{study.name}.json").read_text(encoding="utf-8"))
        for judged in study.judge(plain["rows"], plain["scale"]):
            assert judged.verdict in VERDICTS
            if judged.verdict == UNTESTED:
                assert judged.claim.aside or plain["scale"] == "quick", judged.claim.says
