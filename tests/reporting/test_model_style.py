"""The colours and symbols of compared models: readable on light and dark pages, and by colour-blind readers."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from vaescope.reporting.model_style import MODEL_COLOURS, model_style
from vaescope.reporting.style import DARK_COLOURS

PAGES = ("#FFFFFF", DARK_COLOURS.get("#FFFFFF", "#15181B"))
# Machado et al. (2009): how readers without one kind of cones see linear RGB.
DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
)
PROTANOPIA = np.array(
    [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
)
# Ottosson (2020): linear RGB to Oklab.
TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    light = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) + 0.05 for colour in (one, other))
    return light[1] / light[0]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("colour", MODEL_COLOURS)
def test_colours_are_visible_on_light_and_dark_pages(colour: str, page: str) -> None:
    assert contrast(colour, page) >= 3


@pytest.mark.parametrize("sight", [np.eye(3), DEUTERANOPIA, PROTANOPIA])
def test_colours_differ_for_all_readers(sight: np.ndarray) -> None:
    seen = [TO_LAB @ np.cbrt((TO_LMS @ sight @ linear(colour)).clip(0)) for colour in MODEL_COLOURS]
    assert min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2)) > 0.1


def test_twelve_models_differ_in_colour_or_symbol() -> None:
    styles = [model_style(place) for place in range(12)]
    assert len({(style.colour, style.symbol.plotly) for style in styles}) == 12


def test_plots_and_marks_have_the_same_colour_on_a_dark_page() -> None:
    assert not {colour.lower() for colour in MODEL_COLOURS} & {colour.lower() for colour in DARK_COLOURS}
