"""Models that vaescope did not build, whose decoders the page does not know, and a check that nothing changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

import vaescope as vs

ITEMS = 120
SCALE = 3.0  # of the heads, so that means vary and variances are small for some latents


def digits(items: int = ITEMS) -> Tensor:
    """Images, items x 1 x 8 x 8."""
    return vs.open_dataset("digits").batch(torch.arange(items))


class Convolutional(nn.Module):
    """A convolutional VAE with batch normalisation and dropout; of a spatial one, channels are the latents."""

    def __init__(self, latents: int = 3, *, spatial: bool = False, channels: int = 1) -> None:
        super().__init__()
        torch.manual_seed(0)
        features = [nn.Conv2d(channels, 8, 4, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.2)]
        self.features = nn.Sequential(*features)
        self.heads: nn.Module
        if spatial:
            self.heads, start = nn.Conv2d(8, 2 * latents, 1), nn.Conv2d(latents, 8, 1)
            self.decoder = nn.Sequential(start, nn.BatchNorm2d(8), nn.ReLU(), nn.ConvTranspose2d(8, channels, 4, 2, 1))
        else:
            self.heads = nn.Sequential(nn.Flatten(), nn.Linear(8 * 16, 2 * latents))
            start = nn.Sequential(nn.Linear(latents, 8 * 16), nn.Unflatten(1, (8, 4, 4)))
            self.decoder = nn.Sequential(start, nn.BatchNorm2d(8), nn.ReLU(), nn.ConvTranspose2d(8, channels, 4, 2, 1))
        # Statistics of data, as after a training.
        with torch.no_grad():
            self.train()(torch.rand(64, channels, 8, 8))

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance."""
        mean, width = self.heads(self.features(x)).chunk(2, 1)
        return SCALE * mean, -3 - width.abs()

    def encode(self, x: Tensor) -> Any:
        return self.moments(x)

    def decode(self, z: Tensor) -> Tensor:
        return torch.sigmoid(SCALE * self.decoder(z))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.moments(x)
        return self.decode(mean), mean, log_variance


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Fail if the block changes parameters, buffers, modes or random numbers."""
    before = {name: value.clone() for name, value in model.state_dict().items()}
    modes, random = [part.training for part in model.modules()], torch.get_rng_state()
    yield
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert [part.training for part in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), random)
