"""Cards about what the latents encode, and about metrics."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vaescope import diagnose
from vaescope.codes import Representation
from vaescope.diagnosis.claims import contradictions
from vaescope.diagnosis.factor_cards import meaning_card
from vaescope.errors import ConfigurationError, UnknownNameError
from vaescope.metrics import meaning
from vaescope.runs import fit

GENERATOR = np.random.default_rng(0)
FACTORS = GENERATOR.integers(0, [3, 8], (600, 2))
NOISE = GENERATOR.standard_normal((600, 3))


def codes_of(mean: np.ndarray) -> Representation:
    table = torch.from_numpy(mean)
    return Representation(table, torch.full_like(table, 0.01), table, torch.from_numpy(FACTORS))


def titled(found: Any, title: str) -> Any:
    return next(card for card in found.cards if card.title == title)


def test_a_latent_for_each_factor_is_good() -> None:
    card = meaning_card(meaning(FACTORS + 0.05 * NOISE[:, :2], FACTORS, names=("shape", "place")))
    assert card.status == "good"
    assert card.meaning.startswith("Shape and place")
    assert "place (" in card.rows[1]["encodes"]


def test_a_factor_that_is_spread_or_not_encoded_is_a_note() -> None:
    twice = np.column_stack([FACTORS[:, 0] + 0.1 * NOISE[:, 0], FACTORS + 0.1 * NOISE[:, 1:]])
    assert meaning_card(meaning(twice, FACTORS)).status == "note"
    lost = meaning_card(meaning(FACTORS[:, :1] + 0.1 * NOISE[:, :1], FACTORS, names=("shape", "place")))
    assert lost.status == "note"
    assert "No single latent encodes place" in lost.advice


def test_a_diagnosis_of_codes_with_factors_says_what_each_latent_encodes() -> None:
    found = diagnose(codes_of(FACTORS + 0.05 * NOISE[:, :2]))
    assert found.meaning is not None
    assert found.rows()[0]["encodes"].startswith("latent 0")
    assert titled(found, "Meaning").status == "good"


def test_without_factors_there_is_no_meaning() -> None:
    mean = torch.from_numpy(NOISE)
    found = diagnose(Representation(mean, torch.full_like(mean, 0.5), mean))
    assert found.meaning is None
    assert "encodes" not in found.rows()[0]


def test_constant_factors_have_no_meaning() -> None:
    mean = torch.from_numpy(NOISE)
    constant = torch.zeros(600, 2, dtype=torch.int64)
    assert diagnose(Representation(mean, torch.full_like(mean, 0.5), mean, constant)).meaning is None


def test_a_run_names_the_factors_of_its_data(tmp_path: Path) -> None:
    net = {"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]}
    run = fit("dsprites-small", latents=2, net=net, steps=3, runs=tmp_path, device="cpu")
    found = diagnose(run, items=300)
    assert found.meaning is not None
    assert "position x" in found.meaning.factors
    assert "color" not in found.meaning.factors


def test_requested_metrics_have_a_card() -> None:
    found = diagnose(codes_of(FACTORS + 0.05 * NOISE[:, :2]), metrics=["mig", "hoyer"])
    assert [score.metric for score in found.scores] == ["mig", "hoyer"]
    card = titled(found, "Metrics")
    assert "mig 0.9" in card.meaning
    assert found.scores[0].random == pytest.approx(0, abs=0.1)
    assert found.scores[0].perfect == pytest.approx(1, abs=0.05)
    assert found.plain()["metrics"][0]["metric"] == "mig"


def test_all_metrics_are_computed_and_failures_have_a_reason() -> None:
    found = diagnose(codes_of(FACTORS + 0.05 * NOISE[:, :2]), metrics="all")
    names = {score.metric for score in found.scores}
    assert {"mig", "dci", "sap", "factor_vae", "beta_vae", "modularity", "irs"} <= names
    assert "distance_to_orthogonality" not in names
    assert "distance_to_orthogonality: " in titled(found, "Metrics").advice


def with_a_copy() -> Representation:
    """Two latents that encode a factor each, and a passive one whose mean follows the first."""
    table = np.column_stack([FACTORS + 0.05 * NOISE[:, :2], 0.1 * FACTORS[:, 0]])
    codes = codes_of(table)
    codes.variance[:, 2] = 1.0
    return codes


def test_passive_latents_encode_nothing_although_their_means_are_predictable() -> None:
    found = diagnose(with_a_copy(), metrics=["mig", "dci"])
    assert found.meaning is not None
    assert found.meaning.left_out == (2,)
    assert [row["encodes"] for row in found.rows()][2] == "latent 2 is left out"
    assert titled(found, "Meaning").status == "good"
    assert "Latent 2 is passive and left out" in titled(found, "Meaning").meaning
    assert "their samples" in titled(found, "Means vs. samples").advice
    assert [score.latents for score in found.scores] == [(0, 1), (0, 1)]
    assert "among the 2 in use" in titled(found, "Importance").meaning
    assert {row["latent"] for row in titled(found, "Importance").rows} == {0, 1}
    assert "without passive latents" in titled(found, "Metrics").meaning
    assert contradictions(found) == ()


def test_passive_latents_are_included_on_request() -> None:
    found = diagnose(with_a_copy(), metrics=["mig"], exclude="none")
    assert found.meaning is not None
    assert found.meaning.left_out == ()
    assert found.meaning.carriers("factor 0") == [2, 0] or found.meaning.carriers("factor 0") == [0, 2]
    assert found.scores[0].latents == (0, 1, 2)
    assert found.scores[0].score < diagnose(with_a_copy(), metrics=["mig"]).scores[0].score - 0.2


def test_a_model_without_latents_in_use_encodes_nothing() -> None:
    codes = codes_of(0.1 * NOISE)
    codes.variance[:] = 1.0
    found = diagnose(codes, metrics=["mig"])
    assert titled(found, "Meaning").status == "not applicable"
    assert "all latents are passive" in titled(found, "Metrics").advice


def test_mixed_latents_are_excluded_on_request() -> None:
    codes = codes_of(FACTORS + 0.05 * NOISE[:, :2])
    codes.variance[:, 1] = 0.5
    assert diagnose(codes, metrics=["mig_sup"], exclude="mixed").scores[0].latents == (0,)


def test_exclude_needs_a_known_type() -> None:
    with pytest.raises(UnknownNameError, match=r"active, mixed, none, passive.*sleepy"):
        diagnose(codes_of(NOISE[:, :2]), metrics=["mig"], exclude="sleepy")


def test_importances_have_a_card() -> None:
    found = diagnose(codes_of(FACTORS + 0.05 * NOISE[:, :2]), metrics=["dci"])
    card = titled(found, "Importance")
    assert "factor 0: 0 (" in card.meaning
    assert sum(row["factor 1"] for row in card.rows) == pytest.approx(1)
    assert np.array(found.plain()["metrics"][0]["matrix"]).shape == (2, 2)


def test_an_unknown_metric_is_named() -> None:
    with pytest.raises(UnknownNameError, match=r"mig.*migg"):
        diagnose(codes_of(NOISE[:, :2]), metrics=["migg"])


def test_a_metric_that_fails_for_a_rare_value_is_skipped_with_the_reason() -> None:
    factors = torch.from_numpy(FACTORS.copy())
    factors[5, 1] = 77
    codes = replace(codes_of(FACTORS + 0.05 * NOISE[:, :2]), factors=factors)
    found = diagnose(codes, metrics=["mig", "dci"])
    assert [score.metric for score in found.scores] == ["mig"]
    assert re.search(r"dci: .*class 77 of 'factor 1' has 1", titled(found, "Metrics").advice)
    # A wrong request is still an error.
    with pytest.raises(ConfigurationError, match="needs a decoder"):
        diagnose(codes, metrics=["distance_to_orthogonality"])


def test_a_latent_whose_rate_is_too_small_encodes_nothing_although_its_mean_predicts_a_factor() -> None:
    table = np.column_stack([FACTORS[:, 1] + 0.05 * NOISE[:, 0], NOISE[:, 1], 0.05 * (FACTORS[:, 0] - 1)])
    codes = codes_of(table)
    codes.variance[:, 2] = 0.85
    found = diagnose(codes, metrics=["dci"])
    assert found.types.types[2] == "mixed"
    assert found.meaning is not None
    assert found.meaning.bits[2, 0] > 1
    assert found.rows()[2]["encodes"] == "latent 2 encodes no factor"
    importance = titled(found, "Importance")
    first, second = found.meaning.factors
    strong, _, weak = importance.meaning.partition("From means only")
    assert f"{second}: 0 (" in strong
    assert f"{first}: 2 (" in weak
    assert [claim.latents for claim in importance.claims] == [(0,)]
    assert contradictions(found) == ()
