"""Preparation of live decoding: examples, draws from the prior, and the ranges of the sliders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vaescope as vs
from vaescope.diagnosis.subject import Subject, load_subject
from vaescope.reporting.decoder import NotExported
from vaescope.reporting.live import EXAMPLES, PRIOR_DRAWS, LiveDecoder, live_decoder, live_section, slider_ranges

NET = {"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]}


def subject(folder: Path, **settings: Any) -> Subject:
    run = vs.fit("digits", latents=2, net=NET, steps=3, device="cpu", runs=folder, **settings)
    return load_subject(run, items=200)


def prepared(one: Subject) -> LiveDecoder:
    live = live_decoder(one, vs.variable_types(one.codes))
    assert isinstance(live, LiveDecoder)
    return live


def test_examples_have_the_codes_of_their_items(tmp_path: Path) -> None:
    one = subject(tmp_path)
    live = prepared(one)
    assert len(live.examples) == EXAMPLES
    assert live.places.tolist() == sorted(set(live.places.tolist()))
    np.testing.assert_allclose([start.code for start in live.examples], one.codes.mean[live.places])
    assert {start.condition for start in live.examples} == {()}
    assert live.classes == 0


def test_a_conditional_model_has_the_labels_of_its_items(tmp_path: Path) -> None:
    one = subject(tmp_path, model="conditional")
    live = prepared(one)
    assert one.items is not None
    assert live.classes == 10
    labels = [int(np.argmax(start.condition)) for start in live.examples]
    assert labels == one.items.labels[live.places].tolist()
    assert all(sum(start.condition) == 1 for start in live.draws)


def test_codes_are_drawn_from_the_prior_by_the_seed(tmp_path: Path) -> None:
    one = subject(tmp_path)
    types = vs.variable_types(one.codes)
    first, again, other = (live_decoder(one, types, seed) for seed in (0, 0, 1))
    assert isinstance(first, LiveDecoder)
    assert isinstance(again, LiveDecoder)
    assert isinstance(other, LiveDecoder)
    assert len(first.draws) == PRIOR_DRAWS
    assert first.draws == again.draws != other.draws


def test_an_autoencoder_has_no_prior_to_draw_from(tmp_path: Path) -> None:
    one = subject(tmp_path, model="autoencoder")
    live = prepared(one)
    assert live.draws == ()
    assert one.items is not None
    assert "Draw from the prior" not in live_section(live, one.items)


def test_codes_without_a_run_have_no_live_decoder() -> None:
    mean = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
    one = load_subject((mean, torch.full_like(mean, 0.1)))
    assert isinstance(live_decoder(one, vs.variable_types(one.codes)), NotExported)


def test_sliders_cover_the_samples_and_three_standard_deviations() -> None:
    samples = torch.tensor([[0.0, 10.0, 0.1], [0.0, -1.0, -0.1]])
    (constant, wide, narrow) = slider_ranges(samples)
    assert constant == (0, 0)
    assert wide == (-3, 10)
    assert narrow == pytest.approx((-0.3, 0.3))
