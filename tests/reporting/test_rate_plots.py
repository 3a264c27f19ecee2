"""The map of rates over training, and the strip of latents."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

import vaescope as vs
from vaescope.diagnosis import Diagnosis
from vaescope.reporting.latent_strip import MAX_BARS, latent_strip
from vaescope.reporting.latent_table import LatentRow, latent_rows
from vaescope.reporting.rate_plots import rates_over_training_plot
from vaescope.reporting.style import DARK_COLOURS, PAPER


def probe(step: int, types: str, rates: list[float]) -> dict[str, Any]:
    counts = {"active": types.count("a"), "mixed": types.count("m"), "passive": types.count("p")}
    return {"step": step, "split": "probe", "types": types, "rates": rates, "rate": sum(rates), **counts}


HISTORY = [
    probe(0, "ppa", [0.0, 0.0, 1.0]),
    probe(10, "apa", [0.5, 0.0, 0.4]),
    probe(20, "app", [2.0, 0.0, 0.005]),
]


def test_the_map_has_the_rate_of_each_latent_with_the_largest_at_the_top() -> None:
    plot = rates_over_training_plot(HISTORY)
    assert plot is not None
    (map_,) = plot.figure.data
    assert list(map_.y) == ["latent 0", "latent 2", "latent 1"]
    assert list(map_.x) == [0, 10, 20]
    assert np.asarray(map_.customdata).tolist() == [[0.0, 0.5, 2.0], [1.0, 0.4, 0.005], [0.0, 0.0, 0.0]]
    assert plot.rows[4] == {"step": 10, "latent": 1, "rate": 0.0, "type": "p"}


def test_the_sentence_says_which_latents_came_into_use_and_which_became_passive() -> None:
    plot = rates_over_training_plot(HISTORY)
    assert plot is not None
    assert "1 latent came into use during training: 0 (step 10)." in plot.sentence
    assert "1 latent became passive during training: 2 (step 20)." in plot.sentence
    still = rates_over_training_plot(HISTORY[:1] * 2)
    assert still is not None
    assert "no latent came into use or became passive" in still.sentence


def test_a_latent_near_the_threshold_did_not_come_into_use() -> None:
    types = ("map", "pap", "map", "maa")
    plot = rates_over_training_plot([probe(10 * place, one, [0.02, 2.0, 1.0]) for place, one in enumerate(types)])
    assert plot is not None
    assert "1 latent became passive for a time during training: 0 (step 20)." in plot.sentence
    assert "1 latent came into use during training: 2 (step 30)." in plot.sentence


def test_without_probed_rates_there_is_no_map() -> None:
    assert rates_over_training_plot([]) is None
    assert rates_over_training_plot(HISTORY[:1]) is None


def rows(latents: int) -> tuple[LatentRow, ...]:
    random = np.random.default_rng(0)
    spread = np.linspace(0, 1, latents)
    mean = torch.from_numpy(random.normal(size=(400, latents)) * spread)
    codes = vs.Representation(mean, torch.from_numpy(1.001 - spread**2).expand_as(mean), mean)
    found = vs.diagnose(codes)
    assert isinstance(found, Diagnosis)
    return latent_rows(found, codes)


def test_the_strip_has_a_bar_per_latent_the_largest_first() -> None:
    found = rows(5)
    strip = latent_strip(found)
    shown = [int(number) for number in re.findall(r"<b>(\d+)</b>", strip)]
    assert shown == [row.latent for row in sorted(found, key=lambda row: -row.kl)]
    heights = [float(number) for number in re.findall(r"height:([\d.]+)%", strip)]
    assert heights[0] == 100
    assert heights == sorted(heights, reverse=True)


def test_the_strip_of_many_latents_says_how_many_it_leaves_out() -> None:
    strip = latent_strip(rows(MAX_BARS + 3))
    assert strip.count("<li") == MAX_BARS
    assert "3 more latents with smaller rates" in strip


def luminance(colour: str) -> float:
    levels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    parts = [level / 12.92 if level <= 0.03928 else ((level + 0.055) / 1.055) ** 2.4 for level in levels]
    return float(np.dot(parts, (0.2126, 0.7152, 0.0722)))


@pytest.mark.parametrize("light", ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#707070", "#1a1a1a", "#000000"])
def test_marks_and_text_stand_out_from_dark_paper(light: str) -> None:
    one, paper = luminance(DARK_COLOURS[light]), luminance(DARK_COLOURS[PAPER])
    assert (one + 0.05) / (paper + 0.05) >= 4.5
