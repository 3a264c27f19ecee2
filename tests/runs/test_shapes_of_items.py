"""Items of every usual shape go through a training step, and through the default net."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from vaescope.data import open_dataset
from vaescope.encoding import encode, reconstruct
from vaescope.runs import FitOptions, fit_in_memory
from vaescope.training import Member

SMALL_CONV = {"name": "conv", "kernels": (2, 2, 2, 2), "channels": (2, 2, 2, 2), "hidden": 4}
SMALL_RESNET = {"name": "resnet", "width": 2, "widest": 2}
SMALL_MLP = {"name": "mlp", "encoder_widths": (4,), "decoder_widths": (4,)}
SMALL_CONV1D = {"name": "conv1d", "channels": (2, 2), "hidden": 4}

IMAGES = [
    (1, 28, 28),
    (1, 32, 32),
    (3, 48, 48),
    (3, 64, 64),
    (4, 64, 64),
    (13, 64, 64),
    (3, 96, 96),
    (1, 128, 128),
    (2, 200, 200),
    (3, 256, 256),
    (3, 48, 64),
    (1, 33, 71),
    (13, 28, 256),
]
SIGNALS = [(1, 16), (2, 128), (12, 1000), (3, 77)]
CASES = [
    *[(shape, net) for shape in IMAGES for net in (SMALL_CONV, SMALL_RESNET, SMALL_MLP)],
    *[(shape, net) for shape in SIGNALS for net in (SMALL_CONV1D, SMALL_MLP)],
]


@pytest.mark.parametrize(
    ("shape", "net"), CASES, ids=lambda part: part["name"] if isinstance(part, dict) else str(part)
)
def test_a_training_step_and_the_way_there_and_back(shape: tuple[int, ...], net: dict[str, Any]) -> None:
    rows = np.random.default_rng(0).random((6, *shape)).astype(np.float32)
    data = open_dataset(rows, channels="first", signal=len(shape) == 2)
    options = FitOptions(net=net, steps=1, batch=4, held_out=2, progress=False, device="cpu")
    trained = fit_in_memory(data, Member(2), options)
    codes, decoded = encode(trained.model, data), reconstruct(trained.model, data)
    assert (codes.mean.shape, decoded.shape) == ((6, 2), (6, *shape))
    assert bool(codes.mean.isfinite().all() and decoded.isfinite().all())


@pytest.mark.parametrize("shape", [*IMAGES, *SIGNALS, (1, 8, 8), (7,)], ids=str)
def test_the_default_model_has_the_shape_of_the_items(shape: tuple[int, ...]) -> None:
    rows = np.random.default_rng(0).random((2, *shape))
    architecture = FitOptions().architecture(open_dataset(rows, channels="first", signal=len(shape) == 2))
    model = architecture.form(shape, 2)
    assert model.decode(torch.zeros(3, 2, device="meta")).mean.shape == (3, *shape)
    parts = architecture.plain()
    net = "mlp" if min(shape[-2:]) < 16 and len(shape) != 2 else {2: "conv1d", 3: "conv"}[len(shape)]
    assert (parts["net"]["name"], parts["likelihood"]["name"]) == (net, "bernoulli" if len(shape) == 3 else "gaussian")
