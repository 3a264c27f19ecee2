"""Factories as people write them: functions from a number of latents to a module."""

from __future__ import annotations

import torch
from torch import Tensor, nn

DIMENSIONS = 12


class Plain(nn.Module):
    """A VAE with batch normalisation.

    Layers before a normalisation have no bias: its gradient is only rounding, which Adam turns into steps.
    """

    def __init__(self, latents: int, dimensions: int = DIMENSIONS, width: int = 16) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(dimensions, width, bias=False), nn.BatchNorm1d(width), nn.ReLU())
        self.mean, self.log_variance = nn.Linear(width, latents), nn.Linear(width, latents)
        self.decoder = nn.Sequential(
            nn.Linear(latents, width, bias=False), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, dimensions)
        )

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.features(x)
        return self.mean(features), self.log_variance(features)

    def decode(self, z: Tensor) -> Tensor:
        found: Tensor = self.decoder(z)
        return found


def plain(latents: int) -> Plain:
    return Plain(latents)


class Dropped(Plain):
    """One that draws random numbers by itself, so that torch cannot batch it over members."""

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return super().encode(nn.functional.dropout(x, 0.1, self.training))


class Branching(Plain):
    """One whose Python depends on the numbers, so that torch cannot batch it over members."""

    def decode(self, z: Tensor) -> Tensor:
        return super().decode(z if float(z.abs().max()) < 1e9 else z.clamp(-1e9, 1e9))


class Sigmoid(Plain):
    def decode(self, z: Tensor) -> Tensor:
        return torch.sigmoid(super().decode(z))


class Normal(Plain):
    """One that returns distributions of torch."""

    def __init__(self, latents: int) -> None:
        super().__init__(latents)
        self.scale = nn.Parameter(torch.tensor(1.0))

    def encode(self, x: Tensor) -> torch.distributions.Distribution:
        mean, log_variance = super().encode(x)
        return torch.distributions.Normal(mean, (log_variance / 2).exp(), validate_args=False)

    def decode(self, z: Tensor) -> torch.distributions.Distribution:
        return torch.distributions.Normal(super().decode(z), self.scale.exp(), validate_args=False)


class Tied(Plain):
    """One whose encoder and decoder share a weight, and whose last bias is not trained."""

    def __init__(self, latents: int) -> None:
        super().__init__(latents)
        self.decoder[3].weight = nn.Parameter(self.features[0].weight.detach().T.contiguous())
        self.again = self.decoder[3]
        self.decoder[3].bias.requires_grad = False
