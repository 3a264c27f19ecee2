"""Reconstructions compared with the mean item."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vaescope as vs
from vaescope.diagnosis.reconstruction import MAX_RECONSTRUCTED_ITEMS, NotReconstructed, reconstruction_of
from vaescope.diagnosis.subject import load_subject

GENERATOR = np.random.default_rng(0)
ITEMS = (GENERATOR.normal(size=(400, 2)) @ GENERATOR.normal(size=(2, 6)) + 5).astype(np.float32)
NET = {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]}


class Scaled(nn.Module):
    """A deterministic model that decodes a share of the item around a centre."""

    def __init__(self, share: float, centre: Tensor) -> None:
        super().__init__()
        self.share, self.centre = share, centre
        self.unused = nn.Linear(1, 1)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, torch.full_like(x, -4.0)

    def decode(self, z: Tensor) -> Tensor:
        return self.centre + self.share * (z - self.centre)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encode(x)
        return self.decode(mean), mean, log_variance


@pytest.mark.parametrize(("share", "explained", "status"), [(1, 1, "good"), (0.5, 0.75, "good"), (0, 0, "bad")])
def test_the_share_of_the_variance_is_that_of_the_definition(share: float, explained: float, status: str) -> None:
    model = Scaled(share, torch.from_numpy(ITEMS.mean(0)))
    found = reconstruction_of(load_subject(model, ITEMS))
    assert found.explained == pytest.approx(explained, abs=1e-5)
    assert found.constant_error == pytest.approx(float(((ITEMS - ITEMS.mean(0)) ** 2).mean()), rel=1e-5)
    card = next(card for card in vs.diagnose(model, ITEMS).cards if card.title == "Reconstruction")
    assert card.status == status


def test_the_rows_are_items_from_the_best_to_the_worst() -> None:
    found = vs.diagnose(Scaled(0.5, torch.from_numpy(ITEMS.mean(0))), ITEMS)
    assert found.reconstruction is not None
    rows = next(card for card in found.cards if card.title == "Reconstruction").rows
    errors = [row["error"] for row in rows]
    assert len(rows) == 8
    assert errors == sorted(errors)
    assert errors[0] == min(found.reconstruction.errors)
    assert errors[-1] == max(found.reconstruction.errors)
    first: Any = rows[0]
    item = ITEMS[first["item"]]
    assert first["error"] == pytest.approx(float((0.25 * (item - ITEMS.mean(0)) ** 2).mean()), rel=1e-4)


def test_codes_alone_have_no_reconstructions() -> None:
    found = vs.diagnose((ITEMS, np.full_like(ITEMS, 0.1)))
    assert found.reconstruction is None
    card = next(card for card in found.cards if card.title == "Reconstruction")
    assert card.status == "not applicable"
    assert "not a run" in card.meaning


def test_missing_cells_are_left_out(tmp_path: Path) -> None:
    gaps = np.where(GENERATOR.random(ITEMS.shape) < 0.2, np.nan, ITEMS).astype(np.float32)
    data = vs.data.from_array(gaps, missing="mask")
    run = vs.fit(data, 2, net=NET, steps=300, learning_rate=1e-2, runs=tmp_path, device="cpu")
    found = reconstruction_of(load_subject(run, data))
    assert np.isfinite(found.error)
    assert 0 < found.explained < 1


def test_a_conditional_model_is_given_its_conditions(tmp_path: Path) -> None:
    run = vs.fit("digits", 2, model="conditional", net=NET, steps=30, runs=tmp_path, device="cpu")
    found = reconstruction_of(load_subject(run))
    assert len(found.places) == MAX_RECONSTRUCTED_ITEMS
    assert found.unit == "pixel"


def test_items_that_do_not_vary_cannot_be_compared() -> None:
    same = np.tile(ITEMS[:1], (20, 1))
    with pytest.raises(NotReconstructed, match="do not vary"):
        reconstruction_of(load_subject(Scaled(1.0, torch.from_numpy(ITEMS.mean(0))), same))
