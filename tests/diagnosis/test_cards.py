"""Cards: statuses and sentences for codes made under the regime."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from vaescope.diagnosis.cards import BAD, GOOD, NOT_APPLICABLE, NOTE, SEVERITY, WARNING, Card, by_severity
from vaescope.diagnosis.diagnose import Diagnosis, diagnose
from vaescope.diagnosis.regime_cards import collapse_card, formed_card, passive_since
from vaescope.regime import DeltaKL, collapse

TITLES = {
    "Posterior collapse",
    "Variable types",
    "Information",
    "Mean against sampled",
    "Mixed latents",
    "Polarised regime",
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
    "aaap": ([NOTE, GOOD, GOOD, NOT_APPLICABLE, GOOD], "the passive ones can be dropped"),
    "apap": ([NOTE, GOOD, GOOD, NOT_APPLICABLE, GOOD], "the passive ones can be dropped"),
    "appp": ([WARNING, GOOD, GOOD, NOT_APPLICABLE, GOOD], "most latents have collapsed"),
    "pppp": ([BAD, BAD, BAD, NOT_APPLICABLE, NOT_APPLICABLE], "the codes say nothing about the data"),
    "p": ([BAD, BAD, BAD, NOT_APPLICABLE, NOT_APPLICABLE], "the codes say nothing about the data"),
    "a": ([GOOD, NOTE, GOOD, NOT_APPLICABLE, GOOD], "no latent has collapsed"),
    "amip": ([NOTE, GOOD, GOOD, NOTE, NOTE], "1 of 4 latents is active, 2 mixed, 1 passive; the passive ones"),
}


@pytest.mark.parametrize(("kinds", "wanted", "words"), [(kinds, *rest) for kinds, rest in VERDICTS.items()])
def test_codes_made_under_the_regime_get_their_verdict(kinds: str, wanted: list[str], words: str) -> None:
    found = diagnose(regime(kinds))
    assert statuses(found) == wanted
    assert words in found.summary()
    assert found.summary().count(".") == 1
    assert {card.title for card in found.cards} == TITLES
    places = [SEVERITY.index(card.status) for card in found.cards]
    assert places == sorted(places)
    for one in found.cards:
        assert one.meaning.endswith(".")
        assert not one.advice or one.advice.endswith(".")
        assert "nan" not in one.meaning


def test_spare_latents_are_named_and_may_be_dropped() -> None:
    types = card(diagnose(regime("pappp")), "Variable types")
    assert types.advice == "Latents 0, 2 to 4 can be dropped: the other latent carries as much."
    assert (
        card(diagnose(regime("aapa")), "Variable types").advice == "Latent 2 can be dropped: the other 3 carry as much."
    )


def test_a_model_that_uses_all_its_latents_may_have_room_for_more() -> None:
    assert "room for more" in card(diagnose(regime("aa")), "Variable types").advice
    assert "room for more" not in card(diagnose(regime("ai")), "Variable types").advice


def test_both_kinds_of_mixed_latents_are_told_apart() -> None:
    mixed = card(diagnose(regime("mima")), "Mixed latents")
    assert mixed.meaning == (
        "Latents 0, 2 (mixture) are used for some examples only; latent 1 (intermediate) is used a little for all "
        "examples."
    )
    assert mixed.rows == [
        {"latent": 0, "kind": "mixture"},
        {"latent": 1, "kind": "intermediate"},
        {"latent": 2, "kind": "mixture"},
    ]


def test_latents_of_the_priors_variance_whose_means_move_have_not_collapsed() -> None:
    mean, _ = regime("aa")
    found = diagnose((3 * mean, np.ones_like(mean)))
    assert card(found, "Posterior collapse").status == GOOD
    assert card(found, "Variable types").status == NOTE
    assert "the mean varies with the data" in card(found, "Variable types").advice
    assert "no latent has collapsed" in found.summary()


def test_constant_codes_are_bad_whatever_their_variance() -> None:
    found = diagnose((np.full((50, 2), 3.0), np.full((50, 2), 0.01)))
    assert card(found, "Information").status == BAD
    assert "0.00 nats" in card(found, "Information").meaning


def test_deterministic_codes_have_neither_types_nor_a_rate() -> None:
    mean, variance = regime("aap")
    found = diagnose((mean, 0 * variance))
    assert statuses(found) == [NOT_APPLICABLE] * 5
    assert "2 of 3 latents vary" in card(found, "Posterior collapse").meaning
    assert "no variance" in found.summary()


def test_a_few_variances_of_zero_leave_types_but_no_rate() -> None:
    mean, variance = regime("aap")
    variance[0, 0] = 0
    found = diagnose((mean, variance))
    assert statuses(found) == [NOTE, GOOD, NOT_APPLICABLE, NOT_APPLICABLE, NOT_APPLICABLE]


def test_more_latents_than_examples_cannot_be_compared() -> None:
    compared = card(diagnose(regime("aaaap", items=4)), "Mean against sampled")
    assert compared.status == NOT_APPLICABLE
    assert "more examples than latents" in compared.meaning


def test_latents_that_repeat_each_other_share_infinitely_much() -> None:
    mean, variance = regime("a")
    found = diagnose((np.hstack([mean, mean]), np.hstack([variance, variance])))
    assert "infinitely much (total correlation) in the means" in card(found, "Mean against sampled").meaning
    rows = card(found, "Mean against sampled").plain()["rows"]
    assert next(row["total_correlation"] for row in rows if row["representation"] == "mean") is None


def test_an_estimate_at_its_ceiling_asks_for_more_items() -> None:
    information = card(diagnose(regime("aaaaaaaa", items=100)), "Information")
    assert "at least 4.6" in information.meaning
    assert information.advice == "Encode more items for a sharper estimate."


def looks(*types: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{"step": 1, "split": "train", "loss": 3.0}]
    return rows + [{"step": 100 * (place + 1), "split": "probe", "types": text} for place, text in enumerate(types)]


def test_a_latent_is_passive_since_the_last_time_it_was_not() -> None:
    history = looks("aamp", "aapp", "apap", "appp")
    assert passive_since(history, 4) == {1: 300, 2: 400, 3: 100}
    assert passive_since(history, 3) == {}
    assert passive_since([], 4) == {}


def test_the_card_of_collapse_says_which_since_when_why_and_what_to_do() -> None:
    found = collapse(regime("appp"))
    one = collapse_card(found, looks("aaap", "aapp", "appp"), "beta 8")
    assert one.meaning == (
        "Latents 1 to 3 (3 of 4) collapsed to the prior, since steps 100 to 300: the rate (beta 8) outweighs what they "
        "would add to the reconstruction."
    )
    assert "ask for fewer latents" in one.advice
    assert "lower the weight of the rate" in one.advice
    assert [row["passive_since"] for row in one.rows] == [None, 300, 200, 100]


def test_total_collapse_is_dated_and_cannot_be_mended_by_fewer_latents() -> None:
    one = collapse_card(collapse(regime("pp")), looks("aa", "pp"), "beta 20")
    assert one.meaning.startswith("All 2 latents equal the prior, since step 200, so the code says nothing")
    assert "(beta 20)" in one.meaning
    assert "fewer" not in one.advice


def test_without_history_or_settings_the_card_of_collapse_is_silent_about_them() -> None:
    one = collapse_card(collapse(regime("ap")))
    assert "since" not in one.meaning
    assert "the rate outweighs what it would add" in one.meaning


def test_the_worst_cards_come_first_and_equals_keep_their_order() -> None:
    cards = [Card(str(place), status, "") for place, status in enumerate([*reversed(SEVERITY), BAD])]
    assert [one.title for one in by_severity(cards)] == ["4", "5", "3", "2", "1", "0"]


def test_a_plain_card_has_no_number_that_json_has_no_word_for() -> None:
    one = Card("t", GOOD, "m", rows=[{"a": math.inf, "b": [math.nan, 1.5], "c": (True, None, 2, "x")}])
    assert one.plain()["rows"] == [{"a": None, "b": [None, 1.5], "c": [True, None, 2, "x"]}]
    json.dumps(one.plain(), allow_nan=False)


def test_the_regime_card_says_for_how_long_the_regime_has_held() -> None:
    found = DeltaKL(kl=10.0, approximation=9.9, active=(0, 1))
    history = [
        {"split": "probe", "step": step, "delta_kl": value} for step, value in ((100, 0.2), (200, 0.02), (400, 0.01))
    ]
    card = formed_card(found, history)
    assert card.status == GOOD
    assert (
        "has formed: the rate is 1.0% off what the regime predicts, as it was for the last 75% of training"
        in card.meaning
    )
    assert card.rows[0]["share_below"] == 0.75
    assert formed_card(DeltaKL(10.0, 8.0, (0,)), history).status == NOTE
