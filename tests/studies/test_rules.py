"""Every rule that claims are tested with: rows on which it holds, rows on which it does not, rows without numbers."""

from __future__ import annotations

from typing import Any

import pytest

from vaescope.studies.claims import FAILS, HOLDS, PART, UNTESTED, Rule, StudyClaim
from vaescope.studies.rules import (
    AddsUp,
    Alike,
    AsPublished,
    Between,
    Both,
    Closer,
    Extreme,
    Larger,
    Once,
    Steady,
    Trend,
    Untested,
)

Rows = list[dict[str, Any]]


def row(ours: float | None, sd: float | None = None, seeds: int = 4, **of: Any) -> dict[str, Any]:
    values = {"ours": ours, "sd": sd, "seeds": seeds, "published": None, "published_sd": None, "published_seeds": None}
    return {**values, "difference_se": None, "note": "", **of}


def known(
    ours: float, sd: float | None, published: float, spread: float | None, seeds: int | None = None
) -> dict[str, Any]:
    return {**row(ours, sd), "published": published, "published_sd": spread, "published_seeds": seeds}


def curve(*values: float, sd: float | None = None, **of: Any) -> Rows:
    return [row(value, sd, beta=beta, **of) for beta, value in enumerate(values)]


A, B = {"of": "a"}, {"of": "b"}
ACTIVE, ALL = {"latents": "active"}, {"latents": "all"}
# The rule, rows on which it holds, and rows on which it does not.
CASES: dict[str, tuple[Rule, Rows, Rows]] = {
    "as published": (AsPublished(), [known(1.0, 0.2, 1.1, 0.2, 4)], [known(1.0, 0.2, 1.4, 0.2, 4)]),
    "as published, more seeds": (AsPublished(), [known(1.0, 0.2, 1.25, 0.2, 4)], [known(1.0, 0.2, 1.25, 0.2, 10_000)]),
    "as published, no spread": (AsPublished(within=0.1), [known(1.0, None, 1.05, None)], [known(1, None, 1.2, None)]),
    "as published, about": (AsPublished(about=0.1), [known(9.1, None, 10.0, None)], [known(8.9, None, 10.0, None)]),
    "falls": (Trend("beta", True), curve(3, 2, 1), curve(1, 2, 3)),
    "rises": (Trend("beta", False), curve(1, 2, 3), curve(3, 2, 1)),
    "falls by more than chance": (Trend("beta", True), curve(3, 2, sd=0.5), curve(3, 2, sd=2.0)),
    "larger": (Larger(A, B), [row(2, **A), row(1, **B)], [row(1, **A), row(2, **B)]),
    "larger by more than chance": (Larger(A, B), [row(2, 0.5, **A), row(1, **B)], [row(2, 2, **A), row(1, 2, **B)]),
    "larger by a ratio": (Larger(A, B, ratio=2), [row(3, **A), row(1, **B)], [row(1.5, **A), row(1, **B)]),
    "alike": (Alike(A, B, within=0.5), [row(1, **A), row(1.4, **B)], [row(1, **A), row(1.6, **B)]),
    "alike by a share": (Alike(A, B, about=0.1), [row(10, **A), row(9.5, **B)], [row(10, **A), row(8.5, **B)]),
    "closer": (
        Closer(A, B, ACTIVE, ALL),
        [row(1, **ACTIVE, **A), row(2, **ACTIVE, **B), row(1, **ALL, **A), row(4, **ALL, **B)],
        [row(1, **ACTIVE, **A), row(4, **ACTIVE, **B), row(1, **ALL, **A), row(2, **ALL, **B)],
    ),
    "adds up": (AddsUp(A, B, 10, 1), [row(6.5, **A), row(4, **B)], [row(9, **A), row(4, **B)]),
    "steady": (Steady({}, 1), curve(3, 3.5, 4), curve(3, 3.5, 5)),
    "between": (Between({}, 0.5, 1.5), curve(0.5, 1.5), curve(0.4, 1.6)),
    "at most": (Between({}, high=1), curve(-5, 1), curve(2)),
    "lowest": (Extreme({}, {"beta": 1}), curve(3, 1, 2), curve(1, 3, 2)),
    "highest": (Extreme({}, {"beta": 1}, lowest=False), curve(1, 3, 2), curve(3, 1, 2)),
    "both": (Both((Between({}, low=1), Between({}, high=2))), curve(1, 2), curve()),
    "once": (Once(Between({}, high=2)), curve(1, 2), curve(3, 4)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_rule_holds_on_some_rows_and_fails_on_others(name: str) -> None:
    rule, right, wrong = CASES[name]
    claim = StudyClaim("Some claim.", "section 1", rule)
    assert claim.judge(right).verdict == HOLDS
    assert claim.judge(wrong).verdict == (FAILS if wrong else UNTESTED)


@pytest.mark.parametrize("name", CASES)
def test_a_rule_without_numbers_tests_nothing(name: str) -> None:
    rule, right, _ = CASES[name]
    empty = [{**one, "ours": None, "sd": None, "seeds": None} for one in right]
    assert list(rule.checks(empty)) == list(rule.checks([])) == []


def test_every_rule_has_a_case() -> None:
    tested = {type(rule) for rule, _, _ in CASES.values()}
    assert tested == {AddsUp, Alike, AsPublished, Between, Both, Closer, Extreme, Larger, Once, Steady, Trend}


def test_a_claim_that_nothing_tests_says_why() -> None:
    judged = StudyClaim("Some claim.", "section 1", Untested(), aside="It is judged by eye.").judge(curve(1, 2))
    assert (judged.verdict, judged.why) == (UNTESTED, "It is judged by eye.")


def test_a_trend_that_turns_holds_in_part() -> None:
    (check,) = Trend("beta", True).checks(curve(3, 4, 1))
    assert check.held == 0.5
    assert "3 at beta 0 and 1 at beta 2, but the other way between 3 at beta 0 and 4 at beta 1" in check.said
    assert StudyClaim("", "", Trend("beta", True)).judge(curve(3, 4, 1)).verdict == PART


def test_a_trend_may_turn_by_chance() -> None:
    assert [check.held for check in Trend("beta", True).checks(curve(3, 3.1, 1, sd=0.4))] == [1.0]


def test_groups_are_compared_separately() -> None:
    rows = curve(3, 2, model="VAE") + curve(2, 3, model="VGON")
    fell, rose = Trend("beta", True, by=("model",)).checks(rows)
    assert (fell.held, rose.held) == (1.0, 0.0)
    assert (fell.said, rose.said) == ("VAE: 3 at beta 0 and 2 at beta 1", "VGON: 2 at beta 0 and 3 at beta 1")
    pairs = Larger({"model": "VAE"}, {"model": "VGON"}, by=("beta",)).checks(rows)
    assert [check.said for check in pairs] == [
        "beta 0: 3 (VAE) is above 2 (VGON)",
        "beta 1: 2 (VAE) is not above 3 (VGON)",
    ]


def test_a_difference_within_chance_is_not_clear() -> None:
    (check,) = Larger(A, B).checks([row(2, 2, **A), row(1, 2, **B)])
    assert check.said == "2 ± 2 (a) is not clearly above 1 ± 2 (b)"


def test_the_standard_error_has_both_sides() -> None:
    """0.3 / sqrt(0.4^2 / 4 + 0.3^2 / 9) = 1.34."""
    (check,) = AsPublished().checks([known(1.0, 0.4, 1.3, 0.3, 9)])
    assert check.said == "1 ± 0.4 where 1.3 ± 0.3 is published, 1.3 standard errors apart"


def test_unknown_numbers_of_published_runs_count_as_ours() -> None:
    """0.3 / sqrt(0.4^2 / 4 + 0.3^2 / 4) = 1.2."""
    (check,) = AsPublished().checks([known(1.0, 0.4, 1.3, 0.3)])
    assert check.said.endswith("1.2 standard errors apart")


def test_rows_of_the_same_models_count_once() -> None:
    rule = Between({}, high=2)
    rows = curve(1, 2, 3)
    assert len(rule.checks(rows)) == 3
    (check,) = Once(rule).checks(rows)
    assert check.held == 0.5
    assert check.said.endswith("3 (expected: at most 2) (3 comparisons of the same models, counted once)")


def test_a_selection_lists_values_and_leaves_the_others_out() -> None:
    rows = [row(1, model="AE"), row(1, model="VAE"), row(9, model="Random decoder")]
    assert len(Between({"model": ("AE", "VAE")}, high=2).checks(rows)) == 2


def test_the_measure_is_named_where_a_study_has_several() -> None:
    rows = [row(0.2, measure="DtO"), row(0.9, measure="Disent.")]
    (check,) = Between({"measure": "DtO"}, high=1).checks(rows)
    assert check.said == "DtO: 0.2 (expected: at most 1)"
