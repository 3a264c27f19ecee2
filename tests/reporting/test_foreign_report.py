"""Reports of models of other libraries: reconstructions, traversals, and why parts are missing."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign import Convolutional, digits, unchanged
from PIL import Image
from test_report import words

import vaescope as vs
from vaescope.diagnosis.subject import load_subject
from vaescope.encoding import reconstruct
from vaescope.regime import rate_by_position
from vaescope.reporting.heatmaps import positions_plot
from vaescope.reporting.reconstructions import NotShown, reconstruction_section, reconstructions_of

KINDS = pytest.mark.parametrize("spatial", [False, True], ids=["vectors", "spatial"])


def pictures(markup: str) -> list[np.ndarray]:
    found = re.findall(r'src="data:image/png;base64,([^"]+)"', markup)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(text)))) for text in found]


@KINDS
def test_a_report_shows_reconstructions_and_traversals_and_changes_nothing(spatial: bool, tmp_path: Path) -> None:
    model = Convolutional(spatial=spatial).train()
    with unchanged(model):
        path = vs.report(model, tmp_path / "report.html", digits())
    found = words(path)
    assert "8 items (top row) and their reconstructions (bottom row), from best to worst" in found
    assert "mean squared error" in found
    assert "decoded items with latent 2 from" in path.read_text()
    assert "items with the largest mean of latent 0" in path.read_text()
    assert ("Of each channel" in found) == spatial
    assert "Reconstructions, traversals" not in found


@KINDS
def test_reconstructions_are_what_the_model_decodes_from_its_mean_codes(spatial: bool) -> None:
    model, items = Convolutional(spatial=spatial).eval(), digits()
    found = reconstructions_of(load_subject(model, items))
    wanted = reconstruct(model, items)[found.places]
    torch.testing.assert_close(found.items, wanted, atol=1e-5, rtol=0)
    assert found.error == pytest.approx(float((wanted - items[found.places]).square().mean()), rel=1e-3)
    drawn = pictures(reconstruction_section(found))
    assert len(drawn) == 16
    assert np.abs(drawn[1] - wanted[0, 0].numpy() * 255).max() < 0.51


def test_reconstructions_outside_0_to_1_are_drawn_in_their_range_which_is_stated(tmp_path: Path) -> None:
    model, items = Convolutional(), digits()
    wrapped = vs.wrap(model, encode=model.encode, decode=lambda z: 2 * model.decode(z) - 1, spread="log_variance")
    found = reconstructions_of(load_subject(wrapped, items))
    low = float(found.items.min())
    assert low < -0.5
    assert found.limits == (pytest.approx(low), 1.0)
    section = reconstruction_section(found)
    assert f"from {low:.3g} (black) to 1 (white)" in section
    levels = pictures(section)[1]
    assert np.abs(levels - (found.items[0, 0].numpy() - low) / (1 - low) * 255).max() < 0.51


def test_a_model_without_a_decoder_says_so(tmp_path: Path) -> None:
    def encoder(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        flat = x.flatten(1)[:, 20:23] * 4
        return flat, torch.full_like(flat, 0.02)

    found = words(vs.report(encoder, tmp_path / "report.html", digits()))
    assert "Reconstructions, traversals and sliders: encoder cannot decode" in found
    assert "decode=" in found


def test_what_is_not_finite_is_not_drawn() -> None:
    model = Convolutional()
    wrapped = vs.wrap(model, encode=model.encode, decode=lambda z: model.decode(z) / 0, spread="log_variance")
    with pytest.raises(NotShown, match="infinity"):
        reconstructions_of(load_subject(wrapped, digits()))


def test_vectors_are_drawn_as_pairs_of_lines() -> None:
    table = torch.randn(50, 5, generator=torch.Generator().manual_seed(0))
    wrapped = vs.wrap(
        lambda x: (x[:, :2], torch.full_like(x[:, :2], 0.01)), decode=lambda z: torch.nn.functional.pad(z, (0, 3))
    )
    found = reconstructions_of(load_subject(wrapped, table))
    assert reconstruction_section(found).count("<svg") == 8
    assert found.error == pytest.approx(float(table[found.places, 2:].square().sum() / 40), rel=1e-5)


def test_the_rate_of_spatial_codes_is_mapped_by_position(tmp_path: Path) -> None:
    model = Convolutional(spatial=True)
    codes = vs.encode(model, digits())
    plot = positions_plot(codes)
    mean, variance = (part.double().reshape(-1, 4, 4, 3) for part in (codes.mean, codes.variance))
    kl = (0.5 * (mean**2 + variance - 1 - variance.log())).mean(0)
    assert len(plot.rows) == 16
    for row in plot.rows:
        at = kl[row["row"], row["column"]]
        assert row["rate"] == pytest.approx(float(at.sum()))
        assert row["channel_1"] == pytest.approx(float(at[1]))
    found = words(vs.report(model, tmp_path / "report.html", digits()))
    assert "Rate by position" in found
    assert "Rate by position" not in words(vs.report(Convolutional(), tmp_path / "flat.html", digits()))


class Hierarchical(Convolutional):
    """Two levels: the lower is passive, since it equals its own prior."""

    def encode(self, x: torch.Tensor) -> Any:
        mean, log_variance = self.moments(x)
        prior = torch.distributions.Normal(mean, (log_variance / 2).exp())
        return {
            "upper": {"mean": mean, "log_variance": log_variance},
            "lower": {"posterior": prior, "prior": prior},
        }


def test_each_group_of_latents_has_a_section_and_the_rates_are_summed(tmp_path: Path) -> None:
    model = Hierarchical(spatial=True)
    with unchanged(model):
        path = vs.report(model, tmp_path / "report.html", digits())
    text, found = path.read_text(), words(path)
    parts = ["Groups", "3 of 3 latents are active", "0 of 3 latents are active", "Not included"]
    places = [found.index(part, found.index("One row per group")) for part in parts[1:]]
    assert places == sorted(places)
    assert re.search(r'<h2 id="group-1">Latents of upper</h2>', text)
    assert re.search(r'<h2 id="group-2">Latents of lower</h2>', text)
    assert "Hierarchical cannot decode: its latents are in groups" in found
    codes = vs.encode(Convolutional(spatial=True), digits())
    rate = float(rate_by_position(codes).sum())
    assert f"sum {rate:.5g} 3 0 3" in found
    assert found.count("Rate by position") == 2
    body = re.sub(r"<(script|style)>.*?</\\1>", "", text, flags=re.DOTALL)
    ids = re.findall(r'<[a-z][^>]* id="([^"]+)"', body)
    assert len(ids) == len(set(ids))


def test_a_comparison_of_models_says_what_it_leaves_out(tmp_path: Path) -> None:
    models = [Convolutional(latents) for latents in (2, 3)]
    found = words(vs.report(models, tmp_path / "report.html", digits()))
    assert "the model was not trained by vaescope, so there is no training history" in found
    assert "vs.compare(models, data, layers=True)" in found


def test_codes_in_groups_are_reported(tmp_path: Path) -> None:
    mean = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    used = (mean, torch.full_like(mean, 0.01))
    found = words(vs.report({"top": (0 * mean, torch.ones_like(mean)), "bottom": used}, tmp_path / "report.html"))
    assert "top equals its prior" in found
    assert "sliders: these are codes" in found
