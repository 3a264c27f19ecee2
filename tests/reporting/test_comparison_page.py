"""The page about several models: the same items, matched latents, and what is left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vaescope as vs
from vaescope.reporting.model_style import model_style

NET = {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[vs.Run]:
    folder = tmp_path_factory.mktemp("compared")
    members = [vs.Member(3, vs.objectives.Beta(beta), 1e-2, seed) for beta in (0.1, 0.2) for seed in (0, 1)]
    return vs.fit_many("digits", members, vs.FitOptions(net=NET, steps=120, runs=folder))


def written(subjects: list[Any], path: Path, data: Any = None, **options: Any) -> str:
    return vs.report(subjects, path / "report.html", data, layers=False, **options).read_text(encoding="utf-8")


def test_every_model_has_a_row_of_the_same_items(runs: list[vs.Run], tmp_path: Path) -> None:
    page = written(runs, tmp_path)
    names = ["beta 0.1 · seed 0", "beta 0.1 · seed 1", "beta 0.2 · seed 0", "beta 0.2 · seed 1"]
    shown = [re.findall(rf'alt="item (\d+) reconstructed by {re.escape(name)}"', page) for name in names]
    assert shown[0] == shown[1] == shown[2] == shown[3] == re.findall(r'alt="item (\d+)"', page)
    assert len(shown[0]) == 10
    for place, name in enumerate(names):
        label = str(model_style(place).label(name))
        assert page.count(label) >= 3  # in the table, the pictures and the matches


def test_corresponding_latents_move_in_the_same_direction(runs: list[vs.Run], tmp_path: Path) -> None:
    found = vs.compare(runs[:2])
    page = written(runs[:2], tmp_path)
    assert page.count(" with latent ") == len(found.matches()) + len({row["latent"] for row in found.matches()})
    reversed_strips = page.count("from high to low")
    assert reversed_strips == sum(row["correlation"] < 0 for row in found.matches())


def test_without_images_no_picture_of_the_data_is_in_the_page(runs: list[vs.Run], tmp_path: Path) -> None:
    page = written(runs[:2], tmp_path, images=False)
    assert "data:image/png" not in page
    assert "left out with images=False" in page
    assert "Matched latents" in page


def test_models_that_cannot_decode_are_compared_by_their_codes(runs: list[vs.Run], tmp_path: Path) -> None:
    codes = vs.encode(runs[0], "digits")
    codes.save(tmp_path / "codes.npz")
    page = written([runs[0], str(tmp_path / "codes.npz")], tmp_path)
    assert "Yes: " in page
    assert "codes.npz" in page
    assert "Reconstructions of codes.npz" in page


def test_codes_alone_have_a_page_without_pictures(tmp_path: Path) -> None:
    mean = torch.randn(80, 3, generator=torch.Generator().manual_seed(0))
    codes = [vs.Representation(sign * mean, torch.full_like(mean, 0.1), mean) for sign in (1, -1)]
    page = written(codes, tmp_path)
    assert "3 of 3 latents match" in page
    assert "The same items</h2>" not in page


def test_twelve_models_and_models_of_other_data_have_a_page(runs: list[vs.Run], tmp_path: Path) -> None:
    page = written(runs * 3, tmp_path)
    assert "12 models compared" in page
    table = np.random.default_rng(0).random((60, 5)).astype(np.float32)
    other = vs.fit(table, latents=2, net=NET, steps=5, runs=tmp_path)
    page = written([runs[0], other], tmp_path)
    assert "cannot be compared" in page
    assert "it encodes other items than the first model" in page


def test_names_from_users_are_escaped(tmp_path: Path) -> None:
    mean = torch.randn(80, 2, generator=torch.Generator().manual_seed(0))
    codes = vs.Representation(mean, torch.full_like(mean, 0.1), mean)
    codes.save(tmp_path / "<b>one.npz")
    codes.save(tmp_path / "two.npz")
    page = written([str(tmp_path / "<b>one.npz"), str(tmp_path / "two.npz")], tmp_path)
    body = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "<b>one" not in body
    assert "&lt;b&gt;one.npz" in body


def test_a_rate_near_zero_has_no_digits(tmp_path: Path) -> None:
    mean = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    prior = vs.Representation(torch.zeros(60, 2), torch.ones(60, 2), mean)
    page = written([vs.Representation(mean, torch.full_like(mean, 0.01), mean), prior, prior], tmp_path)
    assert page.count("below 0.001") == 2
    assert "e-" not in "".join(re.findall(r"<td>[^<]*</td>", page))
