"""Reports of signals, of images with many channels and of images in a range of their own."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from browser import chromium, opened

import vaescope as vs
from vaescope.data import Dataset
from vaescope.diagnosis.subject import load_subject
from vaescope.reporting.pictures import LINES_SIZE, MAX_LINES, drawn_note, strip
from vaescope.reporting.reconstructions import reconstructions_of

RANDOM = np.random.default_rng(0)
SHAPES = np.linspace(0, 6, 40)
SIGNALS = np.stack([[20 * np.sin(SHAPES + shift), np.cos(SHAPES * shift)] for shift in RANDOM.uniform(1, 3, 60)])
CHANNELS = RANDOM.random((40, 6, 16, 16)).astype(np.float32)
RANGED = RANDOM.uniform(-1, 1, (40, 1, 16, 16)).astype(np.float32)
MLP = {"name": "mlp", "encoder_widths": (8,), "decoder_widths": (8,)}
CONV = {"name": "conv", "channels": (4, 4, 4, 4), "hidden": 8}
RESNET = {"name": "resnet", "width": 4}
CONV1D = {"name": "conv1d", "channels": (4,), "hidden": 8}
TINY: dict[str, Any] = {"latents": 2, "steps": 3, "batch": 16, "learning_rate": 1e-2, "progress": False}

CANVAS = """() => {
  const canvas = document.querySelector("canvas.decoded");
  return [...canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data];
}"""


def words(path: Path) -> str:
    """The text of a page, without tags, scripts and styles."""
    page = re.sub(r"<(script|style)\b.*?</\1>", " ", path.read_text(), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def lines(markup: str) -> list[str]:
    """The path of each line of a picture."""
    return re.findall(r' d="([^"]+)"', markup)


def test_a_signal_is_drawn_with_its_channels_one_below_the_other() -> None:
    items = RANDOM.normal(size=(2, 3, 5))
    markup = strip(items, (3, 5), "two signals")
    assert "<title>two signals</title>" in markup
    first, second = lines(markup)
    for path in (first, second):
        assert [part.count("L") for part in path.split("M")[1:]] == [4, 4, 4]
    heights = np.array([[float(point.split()[1]) for point in part.split("L")] for part in first.split("M")[1:]])
    # All channels have the same axis, which ends 2 pixels from the edges of their part of the picture.
    height = LINES_SIZE[1]
    unit = (height - 4) / (items.max() - items.min())
    expected = height * np.arange(1, 4)[:, None] - 2 - unit * (items[0] - items.min())
    np.testing.assert_allclose(heights, expected, atol=0.051)


def test_the_first_channels_of_a_signal_of_many_are_drawn_and_the_page_says_so() -> None:
    markup = strip(RANDOM.normal(size=(1, MAX_LINES + 4, 5)), (MAX_LINES + 4, 5), "a signal")
    assert lines(markup)[0].count("M") == MAX_LINES
    assert f"<title>a signal (first {MAX_LINES} of {MAX_LINES + 4} channels)</title>" in markup
    assert drawn_note((2, 5)) == drawn_note((3, 8, 8)) == drawn_note((7,)) == ""


@pytest.mark.parametrize("net", [CONV1D, MLP], ids=["frames", "live"])
def test_a_report_of_signals_draws_lines(net: dict[str, Any], tmp_path: Path) -> None:
    run = vs.fit(SIGNALS, net=net, runs=tmp_path, **TINY)
    page = vs.report(run, tmp_path / "report.html")
    text, content = words(page), page.read_text()
    assert "8 items (light) and their reconstructions (dark), from best to worst" in text
    assert "The 2 channels of a signal are drawn one after another." in text
    assert ("were decoded when this page was made" if net is CONV1D else "the decoder runs in this page") in text
    assert 'class="live vector"' in content
    drawn = re.findall(r"<svg\b[^>]*picture lines.*?</svg>", content, flags=re.DOTALL)
    assert drawn
    assert all(path.count("M") == 2 for one in drawn for path in lines(one))


@pytest.mark.parametrize("net", [CONV, RESNET], ids=["live", "frames"])
def test_a_report_of_six_channels_shows_their_mean_and_says_so(net: dict[str, Any], tmp_path: Path) -> None:
    run = vs.fit(CHANNELS, net=net, runs=tmp_path, **TINY)
    page = vs.report(run, tmp_path / "report.html")
    assert words(page).count("Pictures show the mean over 6 channels.") == 3  # sliders, latents, reconstructions
    assert "(mean over 6 channels)" in page.read_text()


def ranged() -> Dataset:
    return vs.open_dataset(RANGED, range=(-1, 1))


def test_reconstructions_are_in_the_range_of_the_data(tmp_path: Path) -> None:
    run = vs.fit(ranged(), net=MLP, runs=tmp_path, **TINY)
    found = reconstructions_of(load_subject(run))
    torch.testing.assert_close(found.originals, torch.from_numpy(RANGED)[found.places], atol=1e-6, rtol=0)
    torch.testing.assert_close(found.items, run.reconstruct(RANGED)[found.places], atol=1e-5, rtol=1e-4)
    assert (found.pixel_range, found.limits) == ((-1, 1), (-1, 1))
    text = words(vs.report(run, tmp_path / "report.html"))
    assert "all decoded pixels are drawn from -1 (black) to 1 (white)" in text
    assert "Mean squared error over 40 items: " in text


def test_pictures_of_the_same_images_do_not_depend_on_their_range(tmp_path: Path) -> None:
    unit = vs.fit((RANGED + 1) / 2, net=MLP, runs=tmp_path, **TINY)
    pages = [
        re.findall(r"data:image/png;base64,[^\"]+", vs.report(run, tmp_path / "report.html", layers=False).read_text())
        for run in (unit, vs.fit(ranged(), net=MLP, runs=tmp_path, **TINY))
    ]
    assert pages[0]
    assert pages[0] == pages[1]


def test_live_decoding_draws_the_mean_over_channels(tmp_path: Path) -> None:
    run = vs.fit(CHANNELS, net=CONV, runs=tmp_path, **TINY)
    page = vs.report(run, tmp_path / "report.html", CHANNELS, layers=False)
    with chromium() as browser, opened(browser, page) as window:
        pixels = np.array(window.evaluate(CANVAS)).reshape(16, 16, 4)
    expected = run.reconstruct(CHANNELS[0])[0].mean(0) * 255
    np.testing.assert_allclose(pixels[..., 0], expected, atol=0.7)
