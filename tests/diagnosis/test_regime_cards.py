"""Cards about the polarised regime, for codes with known types of latents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vaescope.diagnosis.cards import BAD, GOOD, NOT_APPLICABLE, NOTE, SEVERITY, WARNING, Card
from vaescope.diagnosis.claims import contradictions
from vaescope.diagnosis.course import LEVEL, Course
from vaescope.diagnosis.diagnose import Diagnosis, diagnose
from vaescope.diagnosis.facts import Facts
from vaescope.diagnosis.headline import headline
from vaescope.diagnosis.reconstruction import Reconstruction
from vaescope.diagnosis.regime_cards import collapse_card, course_card, formed_card, mixed_card, types_card
from vaescope.regime import DeltaKL, collapse

TITLES = {
    "Posterior collapse",
    "Variable types",
    "Information",
    "Means vs. samples",
    "Mixed latents",
    "Polarised regime",
    "Reconstruction",
}


def regime(kinds: str, items: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Codes with a latent for each letter: active, passive, mixture or intermediate."""
    generator = np.random.default_rng(seed)
    means, variances = [], []
    for kind in kinds:
        noise = generator.standard_normal(items)
        awake = {"a": np.full(items, True), "p": np.full(items, False)}.get(kind, generator.random(items) < 0.5)
        means.append(np.where(awake, noise, 0.01 * noise))
        variances.append(np.where(awake, 0.01, 1) * (1 - 0.01 * generator.random(items)))
        if kind == "i":
            variances[-1] = 0.5 + 0.03 * generator.standard_normal(items)
    return np.stack(means, 1), np.stack(variances, 1)


def card(found: Diagnosis, title: str) -> Card:
    (one,) = [card for card in found.cards if card.title == title]
    return one


def statuses(found: Diagnosis) -> list[str]:
    titles = ("Posterior collapse", "Variable types", "Information", "Mixed latents", "Polarised regime")
    return [card(found, title).status for title in titles]


VERDICTS = {
    "aaaa": ([GOOD, NOTE, GOOD, NOT_APPLICABLE, GOOD], "no latent has collapsed"),
    "aaap": ([NOTE, GOOD, GOOD, NOT_APPLICABLE, GOOD], "the passive latent can be removed"),
    "apap": ([NOTE, GOOD, GOOD, NOT_APPLICABLE, GOOD], "the passive latents can be removed"),
    "appp": ([WARNING, GOOD, GOOD, NOT_APPLICABLE, GOOD], "the passive latents can be removed"),
    "pppp": ([BAD, BAD, BAD, NOT_APPLICABLE, NOT_APPLICABLE], "the codes carry almost no information (0.00 nats)"),
    "p": ([BAD, BAD, BAD, NOT_APPLICABLE, NOT_APPLICABLE], "the only latent equals the prior"),
    "a": ([GOOD, NOTE, GOOD, NOT_APPLICABLE, GOOD], "no latent has collapsed"),
    "amip": ([NOTE, GOOD, GOOD, NOTE, NOTE], "1 of 4 latents is active, 2 mixed, and 1 passive; the passive latent "),
}


@pytest.mark.parametrize(("kinds", "wanted", "words"), [(kinds, *rest) for kinds, rest in VERDICTS.items()])
def test_codes_get_the_verdict_of_their_types(kinds: str, wanted: list[str], words: str) -> None:
    found = diagnose(regime(kinds))
    assert statuses(found) == wanted
    assert words in found.summary()
    assert found.headline.state == ("collapsed" if set(kinds) == {"p"} else "codes only")
    assert contradictions(found) == ()
    assert {card.title for card in found.cards} == TITLES
    places = [SEVERITY.index(card.status) for card in found.cards]
    assert places == sorted(places)
    for one in found.cards:
        assert one.meaning.endswith(".")
        assert not one.advice or one.advice.endswith(".")
        assert "nan" not in one.meaning


def test_latents_that_can_be_removed_are_named() -> None:
    several, one = (card(diagnose(regime(kinds)), "Variable types").advice for kinds in ("pappp", "aapa"))
    assert several.startswith("Latents 0, 2 to 4 can be removed: they hold 0.0")
    assert one.startswith("Latent 2 can be removed: it holds 0.0")


def test_a_model_that_uses_all_its_latents_may_need_more() -> None:
    assert "more" in card(diagnose(regime("aa")), "Variable types").advice
    assert not card(diagnose(regime("ai")), "Variable types").advice


def test_both_kinds_of_mixed_latents_are_distinguished() -> None:
    mixed = card(diagnose(regime("mima")), "Mixed latents")
    assert "Latents 0, 2 (mixture) are" in mixed.meaning
    assert "latent 1 (intermediate) is" in mixed.meaning
    assert mixed.rows == [
        {"latent": 0, "kind": "mixture"},
        {"latent": 1, "kind": "intermediate"},
        {"latent": 2, "kind": "mixture"},
    ]


def test_latents_with_the_variance_of_the_prior_but_varying_means_have_not_collapsed() -> None:
    mean, _ = regime("aa")
    found = diagnose((3 * mean, np.ones_like(mean)))
    assert card(found, "Posterior collapse").status == GOOD
    assert card(found, "Variable types").status == NOTE
    assert "the mean varies" in card(found, "Variable types").advice
    assert "no latent has collapsed" in found.summary()


def test_constant_codes_are_bad_whatever_their_variance() -> None:
    found = diagnose((np.full((50, 2), 3.0), np.full((50, 2), 0.01)))
    assert card(found, "Information").status == BAD
    assert "0.00 nats" in card(found, "Information").meaning


def test_codes_with_zero_variance_have_neither_types_nor_a_rate() -> None:
    mean, variance = regime("aap")
    found = diagnose((mean, 0 * variance))
    assert statuses(found) == [NOT_APPLICABLE] * 5
    assert "2 of 3 latents vary" in card(found, "Posterior collapse").meaning
    assert "zero variance" in found.summary()


def test_codes_with_a_few_zero_variances_have_types_but_no_rate() -> None:
    mean, variance = regime("aap")
    variance[0, 0] = 0
    found = diagnose((mean, variance))
    assert statuses(found) == [NOTE, GOOD, NOT_APPLICABLE, NOT_APPLICABLE, NOT_APPLICABLE]


def test_means_and_samples_need_more_items_than_latents() -> None:
    compared = card(diagnose(regime("aaaap", items=4)), "Means vs. samples")
    assert compared.status == NOT_APPLICABLE
    assert "more items than latents" in compared.meaning


def test_latents_that_repeat_each_other_have_an_infinite_total_correlation() -> None:
    mean, variance = regime("a")
    found = diagnose((np.hstack([mean, mean]), np.hstack([variance, variance])))
    assert "infinite in the means" in card(found, "Means vs. samples").meaning
    rows = card(found, "Means vs. samples").plain()["rows"]
    assert next(row["total_correlation"] for row in rows if row["representation"] == "mean") is None


def test_an_estimate_at_its_upper_bound_asks_for_more_items() -> None:
    information = card(diagnose(regime("aaaaaaaa", items=100)), "Information")
    assert "at least 4.6" in information.meaning
    assert "more items" in information.advice


def probes(*types: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{"step": 1, "split": "train", "loss": 3.0}]
    return rows + [{"step": 100 * (place + 1), "split": "probe", "types": text} for place, text in enumerate(types)]


def facts_of(kinds: str, history: list[dict[str, Any]] | None = None, **known: Any) -> Facts:
    return Facts("run", collapse(regime(kinds)), history=history or [], **known)


def test_the_collapse_card_says_which_latents_since_when_and_why() -> None:
    settled = Course(LEVEL)
    one = collapse_card(facts_of("appp", probes("aaap", "aapp", "appp"), strengths="beta 8", course=settled))
    for fact in ("Latents 1 to 3 (3 of 4)", "since steps 100 to 300", "the KL term (beta 8) outweighs"):
        assert fact in one.meaning
    assert "fewer latents" in one.advice
    assert "lower the weight of the KL term" in one.advice
    assert [row["passive_since"] for row in one.rows] == [None, 300, 200, 100]


def test_good_reconstructions_without_collapsed_latents_suggest_fewer_latents() -> None:
    for kinds, them in (("aap", "it"), ("app", "them")):
        one = collapse_card(facts_of(kinds, reconstruction=reconstruction(0.9)))
        assert one.advice == f"Reconstructions are good without {them}: the model needs fewer latents."


def test_the_card_of_total_collapse_has_its_step_and_does_not_advise_fewer_latents() -> None:
    settled = Course(LEVEL)
    one = collapse_card(facts_of("pp", probes("aa", "pp"), strengths="beta 20", course=settled))
    assert one.meaning.startswith("All 2 latents equal the prior (since step 200)")
    assert "(beta 20)" in one.meaning
    assert "fewer" not in one.advice


@pytest.mark.parametrize("known", [{}, {"strengths": "beta 8"}, {"course": Course(LEVEL)}])
def test_a_cause_is_named_only_if_the_objective_is_known_and_training_has_settled(known: dict[str, Any]) -> None:
    one = collapse_card(facts_of("ap", **known))
    assert "since" not in one.meaning
    assert "outweighs" not in one.meaning
    assert "cause" not in {claim.kind for claim in one.claims}


def test_codes_alone_give_conditional_advice() -> None:
    found = diagnose(regime("pp"))
    for text in (found.headline.advice, card(found, "Posterior collapse").advice):
        assert text.startswith("If the objective has a KL term")


def test_latents_are_not_removed_from_a_model_in_training() -> None:
    early = Course("falling", change=-5.0, last=20.0)
    types, whole = (types_card(facts_of("aap", course=course)) for course in (early, None))
    assert "removable" not in {claim.kind for claim in types.claims}
    assert "when it is trained" in types.advice
    assert "can be removed" in whole.advice


def test_the_regime_card_says_how_long_ago_the_regime_formed() -> None:
    found = DeltaKL(kl=10.0, approximation=9.9, active=(0, 1))
    history = [
        {"split": "probe", "step": step, "delta_kl": value} for step, value in ((100, 0.2), (200, 0.02), (400, 0.01))
    ]
    card = formed_card(facts_of("aa", history, formed=found))
    assert card.status == GOOD
    for fact in ("has formed", "1.0% off", "the last 75% of training"):
        assert fact in card.meaning
    assert card.rows[0]["share_below"] == 0.75
    assert formed_card(facts_of("aa", history, formed=DeltaKL(10.0, 8.0, (0,)))).status == NOTE


def test_the_well_determined_latents_are_shown_in_sum_and_one_by_one() -> None:
    found = diagnose(regime("aipp"))
    each = [row["well_determined"] for row in found.rows()]
    assert each == pytest.approx([0.99, 0.5, 0, 0], abs=0.02)
    assert found.plain()["well_determined"] == pytest.approx(sum(each))
    types = card(found, "Variable types")
    assert "determine 1.5" in types.meaning
    assert "MacKay" in types.meaning
    assert [row["well_determined"] for row in types.rows] == each


FORMED = DeltaKL(kl=10.0, approximation=9.9, active=(0, 1))


def counted(*types: str) -> list[dict[str, Any]]:
    """The probes with the number of latents of each type."""
    names = {"active": "a", "mixed": "m", "passive": "p"}
    rows = probes(*types)
    return rows[:1] + [{**row, **{name: row["types"].count(one) for name, one in names.items()}} for row in rows[1:]]


def reconstruction(explained: float) -> Reconstruction:
    return Reconstruction((0, 1), (1 - explained,) * 2, (1.0, 1.0))


@pytest.mark.parametrize(
    ("counts", "formed", "explained", "state"),
    [
        ("ap aa aa aa", FORMED, 0.9, "fine"),  # as the demo: what changes is detail
        ("ap ap aa aa", FORMED, 0.9, "fine"),
        ("aa ap ap aa", FORMED, 0.9, "undertrained"),  # a latent came into use in the last third
        ("aa aa aa ap", FORMED, 0.9, "undertrained"),  # the last probe found another number than the diagnosis
        ("", FORMED, 0.9, "undertrained"),  # without probes, nothing shows that the latents have settled
        ("ap aa aa aa", DeltaKL(10.0, 8.0, (0, 1)), 0.9, "undertrained"),
        ("ap aa aa aa", None, 0.9, "undertrained"),
        ("ap aa aa aa", FORMED, 0.7, "undertrained"),
    ],
)
def test_a_loss_that_still_falls_matters_if_the_latents_have_not_settled(
    counts: str, formed: DeltaKL | None, explained: float, state: str
) -> None:
    falling = Course("falling", change=-5.0, last=80.0)
    found = facts_of(
        "aap", counted(*counts.split()), formed=formed, course=falling, reconstruction=reconstruction(explained)
    )
    assert found.state == state
    training = course_card(found)
    assert training is not None
    assert "still falls, by 5 nats" in training.meaning
    assert ("no longer changes" in training.meaning) == (state == "fine")
    assert training.status == (NOTE if state == "fine" else WARNING)
    assert ("rain longer" in training.advice) == (state != "fine")


@pytest.mark.parametrize(("kinds", "said"), [("aaip", "the active latents hold "), ("aip", "the active latent holds ")])
def test_the_headline_says_how_much_of_the_rate_the_active_latents_hold(kinds: str, said: str) -> None:
    facts = facts_of(kinds, reconstruction=reconstruction(0.9))
    rates = facts.found.rates
    share = sum(rates[: kinds.count("a")]) / sum(rates)
    assert 0.8 < share < 0.99
    assert f"{said}{share:.0%} of the rate." in headline(facts).sentence
    nearly_all = facts_of("a" * 30 + "i", reconstruction=reconstruction(0.9))
    assert "hold over 99% of the rate." in headline(nearly_all).sentence
    for others in ("aap", "ip"):
        assert "of the rate" not in headline(facts_of(others, reconstruction=reconstruction(0.9))).sentence


@pytest.mark.parametrize(
    ("kinds", "advice", "said"),
    [
        ("aim", "Inspect which items use latent 2.", "They hold "),
        ("ami", "Inspect which items use latent 1.", "They hold "),
        ("ai", "", "It holds "),  # used a little for all items, so there are no items to look for
    ],
)
def test_mixed_latents_are_to_be_inspected_where_only_some_items_use_them(kinds: str, advice: str, said: str) -> None:
    one = mixed_card(facts_of(kinds))
    assert one.advice == advice
    assert said in one.meaning
    assert "nats of the rate" in one.meaning
