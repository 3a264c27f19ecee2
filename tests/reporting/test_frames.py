"""Frames of each latent: which are decoded, how they are stored, and what the page says of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign import Convolutional, digits
from test_foreign_report import pictures
from test_report import words

import vaescope as vs
from vaescope.diagnosis.diagnose import diagnose_subject
from vaescope.diagnosis.subject import Subject, load_subject
from vaescope.reporting import frames
from vaescope.reporting.frames import FRAMES, frames_section, moved_latents
from vaescope.reporting.latent_table import LatentRow, latent_rows
from vaescope.reporting.reconstructions import reconstructions_of


def section(subject: Subject) -> str:
    return frames_section(subject, rows_of(subject), reconstructions_of(subject), "It is a test.")


def rows_of(subject: Subject) -> tuple[LatentRow, ...]:
    return latent_rows(diagnose_subject(subject), subject.codes)


def held(found: str) -> Any:
    match = re.search(r'<script type="application/json" id="frames-data">(.*?)</script>', found, flags=re.DOTALL)
    assert match is not None
    return json.loads(match[1])


def linear(latents: int, size: int = 4, active: int | None = None) -> tuple[vs.WrappedModel, torch.Tensor]:
    """A model of vectors whose first latents are active, and its items."""
    items = torch.randn(60, latents, generator=torch.Generator().manual_seed(0))
    used = (torch.arange(latents) < (latents if active is None else active)).float()
    return vs.wrap(
        lambda x: (x * used, 1 - 0.99 * used.expand_as(x)),
        decode=lambda z: torch.nn.functional.pad(z, (0, size - latents)),
    ), torch.nn.functional.pad(items, (0, size - latents)) if size > latents else items


def test_a_strip_holds_the_frames_side_by_side_and_starts_at_the_code_of_the_example() -> None:
    subject = load_subject(Convolutional(), digits())
    found = section(subject)
    data = held(found)
    decoded = reconstructions_of(subject)
    for number, strips in enumerate(data["strips"]):
        assert sorted(strips) == ["0", "1", "2"]
        for latent, strip in strips.items():
            (sheet,) = pictures(f'src="{strip["frames"]}"')
            assert sheet.shape == (8, 8 * FRAMES)
            assert len(strip["values"]) == FRAMES
            assert strip["values"] == sorted(strip["values"])
            place = strip["own"]
            own = sheet[:, 8 * place : 8 * place + 8]
            assert np.abs(own - decoded.items[number, 0].numpy() * 255).max() < 0.51
            code = subject.codes.code(int(decoded.places[number]))
            assert strip["values"][place] == pytest.approx(float(code[int(latent)]), abs=1e-4)


def test_the_page_says_that_frames_were_decoded_beforehand_and_why(tmp_path: Path) -> None:
    found = words(vs.report(Convolutional(spatial=True), tmp_path / "report.html", digits()))
    assert f"one of {FRAMES} frames that were decoded when this page was made" in found
    assert "not that of Convolutional" in found
    assert "adding the same number at each of them" in found
    assert "the decoder runs in this page" not in found


def test_latents_without_a_slider_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    model, items = linear(8, 8, active=6)
    subject = load_subject(model, items)
    monkeypatch.setattr(frames, "MAX_LATENTS", 4)
    found = section(subject)
    assert found.count('type="range"') == 4
    assert "2 latents in use, those with the smallest rates, have no slider." in found
    assert "2 passive latents without a slider" in found
    rows = rows_of(subject)
    largest_first = np.argsort([-row.kl for row in rows]).tolist()
    assert [row.latent for row in moved_latents(rows)] == largest_first[:4]


def test_a_model_whose_latents_are_all_passive_has_no_sliders(tmp_path: Path) -> None:
    model, items = linear(3, 3, active=0)
    assert "Sliders: All latents are passive" in words(vs.report(model, tmp_path / "report.html", items))


def test_frames_of_images_with_two_channels_show_the_mean_and_say_so() -> None:
    model = Convolutional(channels=2)
    subject = load_subject(vs.wrap(model), digits().repeat(1, 2, 1, 1))
    found = section(subject)
    assert "Pictures show the mean over 2 channels." in found


def test_a_page_keeps_its_size_with_fewer_examples_and_then_with_smaller_frames(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subject = load_subject(Convolutional(), digits())
    sizes = [len(strip["frames"]) for strip in held(section(subject))["strips"][0].values()]
    monkeypatch.setattr(frames, "MAX_CHARACTERS", int(1.5 * sum(sizes)))
    found = section(subject)
    assert len(held(found)["strips"]) == 1
    assert held(found)["width"] == 8
    monkeypatch.setattr(frames, "MAX_CHARACTERS", int(0.6 * sum(sizes)))
    found = section(subject)
    assert held(found)["width"] == 4
    assert "reduced to 4 x 4 pixels" in found
    assert sum(len(strip["frames"]) for strip in held(found)["strips"][0].values()) < 0.6 * sum(sizes)


def test_long_vectors_are_thinned_out_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    model, items = linear(2, 90)
    monkeypatch.setattr(frames, "MAX_CHARACTERS", 2 * FRAMES * 90 * 8 // 3 // 3 + 1)
    found = section(load_subject(vs.wrap(lambda x: (x[:, :2], 0 * x[:, :2] + 0.01), decode=model._decode), items))
    assert held(found)["vectors"]["size"] == 30
    assert "One of 3 dimensions is drawn" in found


def test_pixels_outside_the_range_are_counted() -> None:
    model = Convolutional()
    wrapped = vs.wrap(model, encode=model.encode, decode=lambda z: model.decoder(z) / 2, spread="log_variance")
    found = section(load_subject(wrapped, digits()))
    assert re.search(r"Pixels are drawn from -\S+ \(black\) to \S+ \(white\); up to \S+% of the pixels", found)


def test_a_run_of_vaescope_that_the_page_cannot_run_has_frames_under_its_condition(tmp_path: Path) -> None:
    net = {"name": "mlp", "encoder_widths": [8], "decoder_widths": [1500, 1500]}
    run = vs.fit("digits", latents=3, model="conditional", net=net, steps=5, runs=tmp_path, device="cpu")
    found = words(vs.report(run, tmp_path / "report.html", layers=False))
    assert "The condition is that of the example." in found
    assert re.search(r"was made\. .*characters", found)
