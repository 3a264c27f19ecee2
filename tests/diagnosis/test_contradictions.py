"""Cards never contradict each other or the headline, over diagnoses of every kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vaescope as vs
from vaescope.diagnosis import Diagnosis, GroupedDiagnosis
from vaescope.diagnosis.cards import Card
from vaescope.diagnosis.claims import Claim, Status, contradictions
from vaescope.diagnosis.headline import Headline

GENERATOR = np.random.default_rng(0)
FACTORS = GENERATOR.integers(0, [3, 8], (600, 2))
NOISE = GENERATOR.standard_normal((600, 4))
LINEAR = (GENERATOR.normal(size=(400, 2)) @ GENERATOR.normal(size=(2, 6))).astype(np.float32)
FIRST = torch.tensor([1.0, 0, 0, 0, 0, 0])
NET = {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]}
QUICK: dict[str, Any] = {"net": NET, "device": "cpu", "learning_rate": 1e-2}
GAUSSIAN = {"likelihood": {"name": "gaussian", "variance": 0.1}}
KINDS = {"a": (1.0, 0.01), "i": (0.7, 0.5), "p": (0.01, 1.0), "m": (0.6, 1.0), "c": (0.0, 0.01)}


def codes_of(kinds: str, factors: bool = False) -> vs.Representation:
    """Active, intermediate, passive or constant latents; of kind m, the mean moves and the variance is the prior's."""
    scales, variances = (torch.tensor(column) for column in zip(*(KINDS[kind] for kind in kinds), strict=True))
    source = np.column_stack([FACTORS[:, :1] - 1, NOISE])[:, : len(kinds)]
    mean = torch.from_numpy(np.resize(source, (600, len(kinds)))) * scales
    variance = variances.expand_as(mean).double()
    sample = mean + variance.sqrt() * torch.from_numpy(GENERATOR.standard_normal(mean.shape))
    return vs.Representation(mean, variance, sample, torch.from_numpy(FACTORS) if factors else None)


class Foreign(nn.Module):
    """A module of another library: perfect, blurred, or with a collapsed encoder."""

    def __init__(self, share: float | Tensor, log_variance: float | Tensor) -> None:
        super().__init__()
        self.share, self.log_variance = share, log_variance
        self.unused = nn.Linear(1, 1)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.share * x, self.log_variance + torch.zeros_like(x)

    def decode(self, z: Tensor) -> Tensor:
        return z

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encode(x)
        return self.decode(mean), mean, log_variance


def trained(data: Any, latents: int, steps: int, **settings: Any) -> Callable[[Path], Any]:
    return lambda folder: vs.diagnose(
        vs.fit(data, latents, steps=steps, runs=folder, **{**QUICK, **settings}),
        metrics=["dci"] if isinstance(data, str) and data == "dsprites-small" else (),
        items=400,
    )


def beta(value: float, **schedule: float) -> dict[str, Any]:
    return {"objective": vs.objectives.Beta(value, **schedule)}


def grouped(kinds: tuple[str, str]) -> Callable[[Path], Any]:
    return lambda _: vs.diagnose({"top": codes_of(kinds[0]), "bottom": codes_of(kinds[1])})


def spatial(_: Path) -> Any:
    mean = GENERATOR.normal(size=(40, 2, 3, 3))
    return vs.diagnose({"mean": mean, "variance": np.full_like(mean, 0.05)})


DIAGNOSES: dict[str, Callable[[Path], Any]] = {
    "all active": lambda _: vs.diagnose(codes_of("aaa")),
    "some passive": lambda _: vs.diagnose(codes_of("aapp")),
    "most passive": lambda _: vs.diagnose(codes_of("appp")),
    "all passive": lambda _: vs.diagnose(codes_of("ppp")),
    "mixed": lambda _: vs.diagnose(codes_of("aip")),
    "all mixed": lambda _: vs.diagnose(codes_of("iii")),
    "moving means": lambda _: vs.diagnose(codes_of("amp")),
    "constant codes": lambda _: vs.diagnose(codes_of("cc")),
    "deterministic codes": lambda _: vs.diagnose((NOISE, 0 * NOISE)),
    "one latent": lambda _: vs.diagnose(codes_of("a")),
    "factors": lambda _: vs.diagnose(codes_of("aaa", factors=True), metrics=["dci", "mig"]),
    "factors and passive latents": lambda _: vs.diagnose(codes_of("paa", factors=True), metrics=["dci"]),
    "factors and no latent in use": lambda _: vs.diagnose(codes_of("pp", factors=True), metrics=["dci"]),
    "predictions": lambda _: vs.diagnose(codes_of("aap", factors=True), predict=True),
    "predictions from passive latents": lambda _: vs.diagnose(codes_of("map", factors=True), predict=True),
    "spatial codes": spatial,
    "groups": grouped(("aa", "ap")),
    "a collapsed group": grouped(("aa", "pp")),
    "collapsed groups": grouped(("pp", "pp")),
    "a foreign model": lambda _: vs.diagnose(Foreign(1.0, -4.0), LINEAR),
    "a poor foreign model": lambda _: vs.diagnose(Foreign(0.05, -4.0), LINEAR),
    "a collapsed foreign model": lambda _: vs.diagnose(Foreign(0.0, -0.001), LINEAR),
    "a foreign model with one latent in use": lambda _: vs.diagnose(Foreign(0.3 * FIRST, -0.001 - 4 * FIRST), LINEAR),
    "three steps": trained(LINEAR, 4, 3),
    "a short training": trained(LINEAR, 4, 60, **GAUSSIAN),
    "a long training": trained(LINEAR, 4, 1000, **GAUSSIAN),
    "collapsed": trained(LINEAR, 4, 600, **GAUSSIAN, **beta(1000.0)),
    "superfluous latents": trained(LINEAR, 6, 1000, **GAUSSIAN),
    "an unfinished warm-up": trained(LINEAR, 4, 300, **GAUSSIAN, **beta(4.0, warm_up=1000)),
    "an autoencoder": trained(LINEAR, 2, 200, model="autoencoder"),
    "no held-out items": trained(LINEAR, 3, 200, held_out=0),
    "no probes": trained(LINEAR, 3, 200, monitor_every=0),
    "a conditional model": trained("digits", 3, 100, model="conditional"),
    "labels, early": trained("digits", 6, 60),
    "labels, beta 16": trained("digits", 6, 400, **beta(16.0)),
    "images with factors, early": trained("dsprites-small", 4, 60),
    "images with factors, beta 16": trained("dsprites-small", 4, 300, **beta(16.0)),
    "another prior": trained("digits", 3, 60, prior="sparse"),
}
STATES = {
    "all active": "codes only",
    "all passive": "collapsed",
    "constant codes": "collapsed",
    "deterministic codes": "codes only",
    "a foreign model": "fine",
    "a poor foreign model": "poor",
    "a collapsed foreign model": "collapsed",
    "a foreign model with one latent in use": "collapsed",
    "collapsed groups": "collapsed",
    "a collapsed group": "codes only",
    "a short training": "undertrained",
    "a long training": "fine",
    "collapsed": "collapsed",
    "superfluous latents": "fine",
    "an unfinished warm-up": "undertrained",
    "images with factors, early": "undertrained",
    "labels, early": "undertrained",
}


def parts_of(found: Diagnosis | GroupedDiagnosis) -> list[Diagnosis]:
    return list(found.groups.values()) if isinstance(found, GroupedDiagnosis) else [found]


@pytest.mark.filterwarnings("ignore::vaescope.errors.CollapseWarning")
@pytest.mark.parametrize("name", DIAGNOSES)
def test_no_card_contradicts_another_or_the_headline(name: str, tmp_path: Path) -> None:
    found = DIAGNOSES[name](tmp_path)
    for one in parts_of(found):
        assert contradictions(one) == ()
        texts = [("the headline", str(one.headline), one.headline.claims)]
        texts += [(card.title, f"{card.meaning} {card.advice}", card.claims) for card in one.cards]
        for title, text, claims in texts:
            kinds = {claim.kind for claim in claims}
            # Words that make a claim are said only where the claim is data.
            assert ("can be removed" in text) == ("removable" in kinds), title
            assert ("rain longer" in text) == ("train longer" in kinds), title
            assert ("outweighs" in text) == ("cause" in kinds), title
            assert "nan" not in text
    assert found.headline.state == STATES.get(name, found.headline.state)
    assert found.plain()["headline"]["state"] == found.headline.state


def card(title: str, *claims: Claim, status: Status = "note") -> Card:
    return Card(title, status, "", claims=claims)


def said(*cards: Card, state: Any = "fine", claims: tuple[Claim, ...] = (), objective: bool = True) -> Diagnosis:
    found = vs.diagnose(codes_of("aapp"))
    return replace(found, cards=cards, headline=Headline(state, "", claims=claims), has_objective=objective)


CONTRADICTIONS: dict[str, Diagnosis] = {
    "a removable latent that predicts a factor": said(
        card("Variable types", Claim("removable", (2, 3))), card("Importance", Claim("encodes", (0, 3)))
    ),
    "passive latents that encode": said(card("Meaning", Claim("encodes", (2,))), claims=(Claim("passive", (2, 3)),)),
    "two counts of types": said(card("Variable types", Claim("types", number=512)), claims=(Claim("types", number=9),)),
    "other passive latents": said(claims=(Claim("passive", (3,)),)),
    "collapse of an active latent": said(card("Posterior collapse", Claim("collapsed", (0,)))),
    "more training for a model that is fine": said(card("Polarised regime", Claim("train longer"))),
    "no card for a headline": said(state="undertrained", claims=(Claim("train longer"),)),
    "removal of latents in training": said(
        card("Training", Claim("train longer")), card("Types", Claim("removable", (2,))), state="undertrained"
    ),
    "more and fewer latents": said(card("Types", Claim("more latents")), card("Collapse", Claim("fewer latents"))),
    "a cause without evidence": said(card("Posterior collapse", Claim("cause")), objective=False),
    "a bad card and a fine model": said(card("Information", status="bad")),
    "a collapsed model with good cards": said(state="collapsed"),
    "collapse of everything with information": said(
        card("Posterior collapse", Claim("collapsed", (0, 1, 2, 3)), status="bad"),
        card("Information", Claim("information", number=4.0)),
        state="collapsed",
    ),
    "two shares of the variance": said(
        card("Reconstruction", Claim("explained", number=0.5)), claims=(Claim("explained", number=0.6),)
    ),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_contradiction_is_found(name: str) -> None:
    assert contradictions(CONTRADICTIONS[name])


def test_a_consistent_diagnosis_has_none() -> None:
    agreed = said(card("Types", Claim("removable", (2, 3))), card("Importance", Claim("encodes", (0, 1))))
    assert contradictions(agreed) == ()
