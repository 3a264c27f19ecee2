"""Preparation of live decoding: examples, draws from the prior, and the ranges of the sliders."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vaescope as vs
from vaescope.diagnosis.diagnose import diagnose_subject
from vaescope.diagnosis.reconstruction import SHOWN_ITEMS
from vaescope.diagnosis.subject import Subject, load_subject
from vaescope.reporting.latent_table import latent_rows
from vaescope.reporting.live import PRIOR_DRAWS, live_section, slider_ranges
from vaescope.reporting.reconstructions import NotShown, reconstructions_of

NET = {"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]}


def subject(folder: Path, **settings: Any) -> Subject:
    run = vs.fit("digits", latents=2, net=NET, steps=3, device="cpu", runs=folder, **settings)
    return load_subject(run, items=200)


def section(one: Subject, seed: int = 0) -> str:
    rows = latent_rows(diagnose_subject(one), one.codes)
    return live_section(one, rows, reconstructions_of(one), seed)


def held(found: str) -> Any:
    """The data in the section."""
    match = re.search(r'<script type="application/json" id="live-data">(.*?)</script>', found, flags=re.DOTALL)
    assert match is not None
    return json.loads(match[1])


def test_examples_have_the_codes_of_their_items(tmp_path: Path) -> None:
    one = subject(tmp_path)
    assert one.items is not None
    found = section(one)
    examples = held(found)["examples"]
    places = np.linspace(0, len(one.items) - 1, SHOWN_ITEMS).round().astype(int)
    np.testing.assert_allclose([start["code"] for start in examples], one.codes.mean[places], atol=1e-6)
    assert [start["condition"] for start in examples] == [[]] * SHOWN_ITEMS
    assert "<option" not in found


def test_a_conditional_model_has_the_labels_of_its_items(tmp_path: Path) -> None:
    one = subject(tmp_path, model="conditional")
    assert one.items is not None
    found = section(one)
    assert found.count("<option") == 10
    places = np.linspace(0, len(one.items) - 1, SHOWN_ITEMS).round().astype(int)
    labels = [int(np.argmax(start["condition"])) for start in held(found)["examples"]]
    assert labels == one.items.labels[places].tolist()
    assert all(sum(start["condition"]) == 1 for start in held(found)["draws"])


def test_codes_are_drawn_from_the_prior_by_the_seed(tmp_path: Path) -> None:
    one = subject(tmp_path)
    first, again, other = (held(section(one, seed))["draws"] for seed in (0, 0, 1))
    assert len(first) == PRIOR_DRAWS
    assert first == again != other


def test_an_autoencoder_has_no_prior_to_draw_from(tmp_path: Path) -> None:
    found = section(subject(tmp_path, model="autoencoder"))
    assert held(found)["draws"] == []
    assert "Sample from the prior" not in found


def test_codes_without_a_run_have_no_live_decoder() -> None:
    mean = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
    with pytest.raises(NotShown, match="these are codes"):
        section(load_subject((mean, torch.full_like(mean, 0.1))))


def test_sliders_cover_the_samples_and_three_standard_deviations() -> None:
    samples = torch.tensor([[0.0, 10.0, 0.1], [0.0, -1.0, -0.1]])
    (constant, wide, narrow) = slider_ranges(samples)
    assert constant == (0, 0)
    assert wide == (-3, 10)
    assert narrow == pytest.approx((-0.3, 0.3))
