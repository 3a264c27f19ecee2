"""Items that were preprocessed for a model of another library: any range, any number of channels, a single one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from foreign_models import LATENTS, MODELS, SHAPE, Base
from torch import Tensor, nn

import vaescope as vs
from vaescope.encoding import layer_similarity, reconstruct
from vaescope.errors import DataError

X = torch.rand(60, *SHAPE, generator=torch.Generator().manual_seed(0)) * 2 - 1


class Many(nn.Module):
    """A model of images with four channels, between -1 and 1."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Conv2d(4, 6, 2, 2), nn.ConvTranspose2d(3, 4, 2, 2)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, 1)
        return mean, log_variance

    def decode(self, z: Tensor) -> Tensor:
        return self.decoder(z).tanh()


class Normalised(torch.utils.data.Dataset[tuple[Tensor, int]]):
    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        return X[place], place % 3


def by_hand(model: Base) -> Tensor:
    with torch.no_grad():
        return model.moments(X)[0].double()


def test_pixels_keep_their_range() -> None:
    model = MODELS["pair"]()
    torch.testing.assert_close(vs.encode(model, X).mean, by_hand(model))
    torch.testing.assert_close(vs.activations(model, X)["mean"].double(), by_hand(model))
    codes = vs.encode(model, Normalised())
    torch.testing.assert_close(codes.mean, by_hand(model))
    assert codes.labels is not None
    assert layer_similarity(model, data=X).matrix.shape[0] > 0
    assert vs.prune(model, X, keep=[0, 1]).items == 60


def test_bytes_are_scaled_as_always() -> None:
    model = MODELS["pair"]()
    pixels = ((X + 1) / 2 * 255).round().to(torch.uint8)
    torch.testing.assert_close(vs.encode(model, pixels).mean, vs.encode(model, pixels.float() / 255).mean)


def test_one_item_and_blank_items_are_encoded() -> None:
    model = MODELS["pair"]()
    assert vs.encode(model, X[:1]).mean.shape == (1, LATENTS)
    assert reconstruct(model, torch.full((3, *SHAPE), -1.0)).shape == (3, *SHAPE)
    with pytest.raises(DataError, match="at least one item, got 0"):
        vs.encode(model, X[:0])


def test_images_have_any_number_of_channels(tmp_path: Path) -> None:
    images = torch.rand(40, 4, 6, 10, generator=torch.Generator().manual_seed(1)) * 2 - 1
    model = Many()
    codes = vs.encode(model, images)
    assert (codes.latents, codes.positions) == (3, (3, 5))
    assert reconstruct(model, images).shape == images.shape
    vs.report(model, tmp_path / "report.html", images)
    assert "mean over 4 channels" in (tmp_path / "report.html").read_text()


def test_a_report_draws_pixels_in_their_range(tmp_path: Path) -> None:
    model = MODELS["pair"]()
    wrapped = vs.wrap(model, decode=lambda z: model.items(z) * 2 - 1)
    vs.report(wrapped, tmp_path / "report.html", X)
    page = (tmp_path / "report.html").read_text()
    assert re.search(r"all decoded pixels are drawn from -1(?:\.0+)? \(black\) to 1(?:\.0+)? \(white\)", page)


def test_such_images_are_not_trained_on(tmp_path: Path) -> None:
    data = vs.open_dataset(X, as_given=True, labels=torch.arange(60) % 3)
    assert data.draw(10).pixel_range == (float(X.min()), float(X.max()))
    with pytest.raises(DataError, match=r"pixels must lie in \[0, 1\] to train on them, got -0\.99"):
        vs.fit(data, 2, steps=2, runs=tmp_path)
    assert vs.open_dataset(X / 2 + 0.5, as_given=True).pixel_range == (0, 1)
