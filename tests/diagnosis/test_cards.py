"""Cards as values."""

from __future__ import annotations

import json
import math

from vaescope.diagnosis.cards import BAD, GOOD, SEVERITY, Card, by_severity


def test_the_worst_cards_come_first_and_equal_ones_keep_their_order() -> None:
    cards = [Card(str(place), status, "") for place, status in enumerate([*reversed(SEVERITY), BAD])]
    assert [one.title for one in by_severity(cards)] == ["4", "5", "3", "2", "1", "0"]


def test_a_plain_card_is_valid_json() -> None:
    one = Card("t", GOOD, "m", rows=[{"a": math.inf, "b": [math.nan, 1.5], "c": (True, None, 2, "x")}])
    assert one.plain()["rows"] == [{"a": None, "b": [None, 1.5], "c": [True, None, 2, "x"]}]
    json.dumps(one.plain(), allow_nan=False)
