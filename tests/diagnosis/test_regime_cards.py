"""Cards about the polarised regime, for codes with known types of latents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vaescope.diagnosis.cards import (
    BAD,
    GOOD,
    NOT_APPLICABLE,
    NOTE,
    SEVERITY,
    WARNING,
    Card,
    collapse_card,
    formed_card,
    passive_since,
)
from vaescope.diagnosis.diagnose import Diagnosis, diagnose
from vaescope.regime import DeltaKL, collapse

TITLES = {
    "Posterior collapse",
    "Variable types",
    "Information",
    "Means vs. samples",
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
    "aaap": ([NOTE, GOOD, GOOD, NOT_APPLICABLE, GOOD], "the passive latents can be removed"),
    "apap": ([NOTE, GOOD, GOOD, NOT_APPLICABLE, GOOD], "the passive latents can be removed"),
    "appp": ([WARNING, GOOD, GOOD, NOT_APPLICABLE, GOOD], "most latents have collapsed"),
    "pppp": ([BAD, BAD, BAD, NOT_APPLICABLE, NOT_APPLICABLE], "the codes carry no information"),
    "p": ([BAD, BAD, BAD, NOT_APPLICABLE, NOT_APPLICABLE], "the codes carry no information"),
    "a": ([GOOD, NOTE, GOOD, NOT_APPLICABLE, GOOD], "no latent has collapsed"),
    "amip": ([NOTE, GOOD, GOOD, NOTE, NOTE], "1 of 4 latents is active, 2 mixed, 1 passive; the passive"),
}


@pytest.mark.parametrize(("kinds", "wanted", "words"), [(kinds, *rest) for kinds, rest in VERDICTS.items()])
def test_codes_get_the_verdict_of_their_types(kinds: str, wanted: list[str], words: str) -> None:
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


def test_latents_that_can_be_removed_are_named() -> None:
    several, one = (card(diagnose(regime(kinds)), "Variable types").advice for kinds in ("pappp", "aapa"))
    assert several.startswith("Latents 0, 2 to 4 can be removed: the other latent ")
    assert one.startswith("Latent 2 can be removed: the other 3 ")


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
    assert "the mean varies with the data" in card(found, "Variable types").advice
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


def test_a_latent_is_passive_since_the_first_probe_after_which_it_stays_passive() -> None:
    history = probes("aamp", "aapp", "apap", "appp")
    assert passive_since(history, 4) == {1: 300, 2: 400, 3: 100}
    assert passive_since(history, 3) == {}
    assert passive_since([], 4) == {}


def test_the_collapse_card_says_which_latents_since_when_and_why() -> None:
    found = collapse(regime("appp"))
    one = collapse_card(found, probes("aaap", "aapp", "appp"), "beta 8")
    for fact in ("Latents 1 to 3 (3 of 4)", "since steps 100 to 300", "the KL term (beta 8)"):
        assert fact in one.meaning
    assert "fewer latents" in one.advice
    assert "lower the weight of the KL term" in one.advice
    assert [row["passive_since"] for row in one.rows] == [None, 300, 200, 100]


def test_the_card_of_total_collapse_has_its_step_and_does_not_advise_fewer_latents() -> None:
    one = collapse_card(collapse(regime("pp")), probes("aa", "pp"), "beta 20")
    assert one.meaning.startswith("All 2 latents equal the prior, since step 200")
    assert "(beta 20)" in one.meaning
    assert "fewer" not in one.advice


def test_without_history_and_strengths_the_collapse_card_does_not_mention_them() -> None:
    one = collapse_card(collapse(regime("ap")))
    assert "since" not in one.meaning
    assert "the KL term outweighs what it would add" in one.meaning


def test_the_regime_card_says_how_long_ago_the_regime_formed() -> None:
    found = DeltaKL(kl=10.0, approximation=9.9, active=(0, 1))
    history = [
        {"split": "probe", "step": step, "delta_kl": value} for step, value in ((100, 0.2), (200, 0.02), (400, 0.01))
    ]
    card = formed_card(found, history)
    assert card.status == GOOD
    for fact in ("has formed", "1.0% off", "the last 75% of training"):
        assert fact in card.meaning
    assert card.rows[0]["share_below"] == 0.75
    assert formed_card(DeltaKL(10.0, 8.0, (0,)), history).status == NOTE
