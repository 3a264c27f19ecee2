"""The summary, the cards and the table of a comparison never contradict each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vaescope as vs
from vaescope.diagnosis import Comparison
from vaescope.diagnosis.cards import Card
from vaescope.diagnosis.claims import Claim
from vaescope.diagnosis.comparison_claims import comparison_contradictions

NET = {"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]}
SOURCE = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
TURN = torch.linalg.qr(torch.randn(4, 4, generator=torch.Generator().manual_seed(1)))[0]
KINDS = {"a": (1.0, 0.01), "p": (0.01, 1.0), "m": (0.6, 1.0), "c": (0.0, 0.01)}


def codes(kinds: str, source: torch.Tensor = SOURCE) -> vs.Representation:
    """Active, passive or constant latents; of kind m, the mean moves and the variance is the prior's."""
    scales, variances = (torch.tensor(column) for column in zip(*(KINDS[kind] for kind in kinds), strict=True))
    mean = source[:, : len(kinds)] * scales
    return vs.Representation(mean, variances.expand_as(mean), mean)


def runs_of(folder: Path, *settings: dict[str, Any], data: Any = "digits") -> list[vs.Run]:
    plain: dict[str, Any] = {"net": NET, "steps": 5, "runs": folder, "device": "cpu", "latents": 2}
    return [vs.fit(data, **{**plain, **one}) for one in settings]


def objectives(folder: Path) -> Comparison:
    return vs.compare(runs_of(folder, {}, {"objective": vs.objectives.Beta(4.0)}))


def seeds(folder: Path) -> Comparison:
    return vs.compare(runs_of(folder, {"seed": 0}, {"seed": 1}, {"seed": 2}))


def other_items(folder: Path) -> Comparison:
    wide = np.random.default_rng(0).random((200, 6)).astype(np.float32)
    return vs.compare([*runs_of(folder, {}), *runs_of(folder, {}, data=wide)])


COMPARISONS: dict[str, Callable[[Path], Comparison]] = {
    "equal codes": lambda _: vs.compare([codes("aap"), codes("aap")]),
    "turned codes": lambda _: vs.compare([codes("aaaa"), codes("aaaa", SOURCE @ TURN)]),
    "other codes": lambda _: vs.compare([codes("aa"), codes("aa", SOURCE.flip(0))]),
    "more latents": lambda _: vs.compare([codes("aaap"), codes("ap")]),
    "three models": lambda _: vs.compare([codes("aaap"), codes("aapp"), codes("apap")]),
    "one model in use": lambda _: vs.compare([codes("aap"), codes("ppp")]),
    "no model in use": lambda _: vs.compare([codes("pp"), codes("ppp")]),
    "constant codes": lambda _: vs.compare([codes("aa"), codes("cc"), codes("ap")]),
    "only constant codes": lambda _: vs.compare([codes("cc"), codes("cc")]),
    "moving means": lambda _: vs.compare([codes("am"), codes("aa")]),
    "deterministic codes": lambda _: vs.compare([(SOURCE, 0 * SOURCE), codes("aap")]),
    "few items": lambda _: vs.compare([codes("aa", SOURCE[:12]), codes("ap", SOURCE[:12])]),
    "other objectives": objectives,
    "seeds": seeds,
    "other items": other_items,
}
# Words that make a claim of each kind.
SAID = {
    "used": "latents",
    "matched": "latents match",
    "constant codes": "are equal for all items",
    "other items": "encode different items",
    "equal numbers": "they agree for",
    "losses differ": "the losses are not comparable",
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_the_parts_of_a_comparison_agree(name: str, tmp_path: Path) -> None:
    found = COMPARISONS[name](tmp_path)
    assert comparison_contradictions(found) == ()
    said = {one.title: (f"{one.meaning} {one.advice}", {claim.kind for claim in one.claims}) for one in found.cards}
    for title, (text, kinds) in said.items():
        for kind in set(SAID) - {"used", "matched", "equal numbers"}:
            assert (SAID[kind] in text) == (kind in kinds), title
        assert all(SAID[kind] in text for kind in kinds), title
    assert ("matched" in said["Matched latents"][1]) == ("latents match" in said["Matched latents"][0])
    assert said["Latents in use"][1] == {"used"}
    numbers = {claim.kind: claim.number for claim in found.claims}
    assert ("similarity" in numbers) == ("CKA" in found.summary())
    if "similarity" in numbers:
        assert f"CKA {numbers['similarity']:.2f}" in found.summary()
    assert found.plain()["claims"] == [
        {**vars(claim), "latents": list(claim.latents), "models": list(claim.models)} for claim in found.claims
    ]


BOTH = ("codes (1)", "codes (2)")


@pytest.mark.parametrize(
    "claim",
    [
        Claim("used", (0, 1, 2), 3, models=BOTH[:1]),
        Claim("used", (0,), 2, models=BOTH[:1]),
        Claim("matched", (0,), 1, models=BOTH),
        Claim("similarity", number=0.3, models=BOTH),
        Claim("equal numbers", models=BOTH),
        Claim("constant codes", models=BOTH[1:]),
        Claim("other items", models=BOTH),
        Claim("matched", (0, 1, 2), 3, models=BOTH),
    ],
    ids=lambda claim: f"{claim.kind} {claim.number}",
)
def test_a_contradiction_between_models_is_found(claim: Claim) -> None:
    found = vs.compare([codes("aapp"), codes("aaap")])
    assert comparison_contradictions(found) == ()
    wrong = replace(found, cards=(*found.cards, Card("Wrong", "note", "", claims=(claim,))))
    assert comparison_contradictions(wrong)


def test_losses_that_cannot_be_compared_are_not_in_the_table(tmp_path: Path) -> None:
    found = seeds(tmp_path)
    assert all("test_loss" in row for row in found.table)
    wrong = Card("What differs", "note", "", claims=(Claim("losses differ", models=found.names),))
    assert comparison_contradictions(replace(found, cards=(*found.cards, wrong)))
