"""Pictures: their pixels and counts, read back from the HTML."""

from __future__ import annotations

import base64
import io
import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from vaescope.errors import DataError
from vaescope.reporting.pictures import MAX_PIXELS, histogram_counts, histogram_svg, picture, picture_grid, strip

RANDOM = np.random.default_rng(0)


def pixels(markup: str) -> np.ndarray:
    (text,) = re.findall(r'src="data:image/png;base64,([^"]+)"', markup)
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(text))))


def attributes(markup: str) -> dict[str, str]:
    return dict(re.findall(r'([\w-]+)="([^"]*)"', markup.split(">")[0]))


def rounded(items: np.ndarray) -> np.ndarray:
    return np.floor(items.clip(0, 1) * 255 + 0.5).astype(np.uint8)


def test_a_strip_of_grey_images_contains_their_rounded_pixels() -> None:
    items = RANDOM.random((4, 1, 5, 7))
    drawn = pixels(strip(items, (1, 5, 7), "four"))
    assert drawn.shape == (5, 4 * 8 - 1)
    for place in range(4):
        assert np.array_equal(drawn[:, place * 8 : place * 8 + 7], rounded(items[place, 0]))
    assert (drawn[:, 7::8] == 255).all()


def test_a_strip_of_colour_images_contains_their_rounded_pixels() -> None:
    items = RANDOM.random((3, 3, 6, 4))
    drawn = pixels(strip(items, (3, 6, 4), "three"))
    for place in range(3):
        assert np.array_equal(drawn[:, place * 5 : place * 5 + 4], rounded(np.moveaxis(items[place], 0, -1)))


def test_flat_items_are_reshaped() -> None:
    items = RANDOM.random((2, 1, 4, 4))
    assert strip(items.reshape(2, 16), (1, 4, 4), "two") == strip(items, (1, 4, 4), "two")


def test_values_outside_0_to_1_are_clipped() -> None:
    drawn = pixels(picture(np.array([[[-1.0, 0.0], [1.0, 7.0]]]), (1, 2, 2), "one"))
    assert drawn.tolist() == [[0, 0], [255, 255]]


def test_channels_other_than_1_or_3_are_averaged() -> None:
    items = RANDOM.random((2, 5, 3, 3))
    markup = strip(items, (5, 3, 3), "two")
    assert np.array_equal(pixels(markup)[:, :3], rounded(items[0].mean(0)))
    assert attributes(markup)["alt"] == "two (mean over 5 channels)"


def test_a_grid_fills_its_last_row_with_white() -> None:
    items = RANDOM.random((5, 1, 2, 2))
    drawn = pixels(picture_grid(items, (1, 2, 2), "five", columns=3))
    assert drawn.shape == (5, 8)
    assert np.array_equal(drawn[3:, 3:5], rounded(items[4, 0]))
    assert (drawn[3:, 6:] == 255).all()


@pytest.mark.parametrize(
    ("side", "height", "pixelated"), [(8, 48, True), (28, 56, True), (64, 48, False), (300, 48, False)]
)
def test_images_of_all_sizes_have_similar_heights_on_the_page(side: int, height: int, pixelated: bool) -> None:
    found = attributes(strip(np.zeros((2, 1, side, side)), (1, side, side), "two"))
    assert int(found["height"]) == height
    assert ("pixels" in found["class"].split()) == pixelated


def test_large_images_are_reduced() -> None:
    drawn = pixels(picture(np.ones((3, 400, 200)), (3, 400, 200), "one"))
    assert drawn.shape == (80, 40, 3)
    assert max(drawn.shape) <= MAX_PIXELS


def test_vectors_are_lines_from_light_to_dark() -> None:
    items = np.array([[0.0, 1.0, 0.5], [1.0, 1.0, 0.0]])
    root = ElementTree.fromstring(strip(items, (3,), "two vectors"))
    paths = list(root.iter("path"))
    points = [[float(number) for number in re.findall(r"[\d.]+", path.attrib["d"])] for path in paths]
    heights = 56 - 2 - items * 52
    assert np.allclose([line[1::2] for line in points], heights)
    shades = [sum(bytes.fromhex(path.attrib["stroke"][1:])) for path in paths]
    assert shades[0] > shades[1]
    assert root.findtext("title") == "two vectors"


def test_lines_use_the_given_limits() -> None:
    (path,) = ElementTree.fromstring(strip(np.array([[0.0, 1.0]]), (2,), "one", limits=(-1.0, 1.0))).iter("path")
    assert path.attrib["d"] == "M2.0 28.0L318.0 2.0"


@pytest.mark.parametrize("items", [np.full((2, 3), 0.3), np.array([[0.1], [0.2]])])
def test_constant_vectors_and_single_numbers_can_be_drawn(items: np.ndarray) -> None:
    markup = strip(items, items.shape[1:], "two")
    assert markup.count("<path") == 2
    assert "nan" not in markup


def test_counts_equal_those_of_a_plain_loop() -> None:
    values = [*RANDOM.normal(size=500).clip(-2.9, 3).tolist(), -3.0, 3.0, 0.0]
    expected = [0] * 21
    for value in values:
        expected[min(int((value + 3) / 6 * 21), 20)] += 1
    assert histogram_counts(values, (-3, 3), 21) == tuple(expected)


def test_bar_heights_are_proportional_to_counts() -> None:
    root = ElementTree.fromstring(histogram_svg([0, 10, 5, 1000], "some words"))
    bars = next(path.attrib["d"] for path in root.iter("path") if path.attrib["class"] == "bars")
    heights = [-float(height) for height in re.findall(r"v(-[\d.]+)", bars)]
    assert heights == [1.0, 1.0, 27.0]
    assert (root.attrib["role"], root.findtext("title")) == ("img", "some words")


@pytest.mark.parametrize("counts", [[], [0, 0]])
def test_a_histogram_of_nothing_is_empty(counts: list[int]) -> None:
    assert 'd=""' in histogram_svg(counts, "nothing")


def test_alternative_texts_are_escaped() -> None:
    for markup in (picture(np.zeros((1, 2, 2)), (1, 2, 2), '"<b>'), picture(np.zeros(2), (2,), '"<b>')):
        assert "<b>" not in markup


@pytest.mark.parametrize(
    ("items", "shape", "words"),
    [
        (np.zeros((2, 9)), (1, 4, 4), r"\(1, 4, 4\).*\(9,\)"),
        (np.zeros((2, 4)), (2, 2, 1, 1), r"\(2, 2, 1, 1\)"),
        (np.array([[0.0, np.inf]]), (2,), "finite"),
        (np.zeros((0, 4)), (4,), "at least one item"),
    ],
)
def test_items_that_cannot_be_drawn_raise_an_error(items: Any, shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(DataError, match=words):
        strip(items, shape, "none")
