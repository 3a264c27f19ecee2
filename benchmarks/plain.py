"""The loop everyone writes: the same convolutional VAE in plain PyTorch, as the measure of ours."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

LATENTS, BATCH = 10, 64


class PlainVAE(nn.Module):
    """Kernels 4, 4, 2, 2 and hidden layers as in `vaescope.nets.Conv`."""

    def __init__(self) -> None:
        super().__init__()
        relu = nn.ReLU()
        self.encoder = nn.Sequential(
            *(nn.Conv2d(1, 32, 4, 2, 1), relu, nn.Conv2d(32, 32, 4, 2, 1), relu),
            *(nn.Conv2d(32, 64, 2, 2), relu, nn.Conv2d(64, 64, 2, 2), relu),
            *(nn.Flatten(), nn.Linear(1024, 256), relu),
        )
        self.mean, self.log_variance = nn.Linear(256, LATENTS), nn.Linear(256, LATENTS)
        self.decoder = nn.Sequential(
            *(nn.Linear(LATENTS, 256), relu, nn.Linear(256, 1024), relu, nn.Unflatten(1, (64, 4, 4))),
            *(nn.ConvTranspose2d(64, 64, 4, 2, 1), relu, nn.ConvTranspose2d(64, 32, 4, 2, 1), relu),
            *(nn.ConvTranspose2d(32, 32, 4, 2, 1), relu, nn.ConvTranspose2d(32, 1, 4, 2, 1)),
        )

    def forward(self, x: Tensor) -> Tensor:
        features = self.encoder(x)
        mean, log_variance = self.mean(features), self.log_variance(features)
        z = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        reconstruction = F.binary_cross_entropy_with_logits(self.decoder(z), x, reduction="sum") / len(x)
        rate = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1).mean()
        return reconstruction + rate


def plain_loop(images: Tensor, device: str, channels_last: bool) -> Callable[[int], float]:
    """A function that trains that many steps from a DataLoader and gives the seconds per step."""
    form = torch.channels_last if channels_last else torch.contiguous_format
    model = PlainVAE().to(device).to(memory_format=form)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)
    loader = DataLoader(TensorDataset(images), batch_size=BATCH, shuffle=True, drop_last=True)

    def run(steps: int) -> float:
        done, start = 0, time.perf_counter()
        while done < steps:
            for (x,) in loader:
                optimiser.zero_grad()
                model(x.to(device).to(memory_format=form)).backward()
                optimiser.step()
                done += 1
                if done == steps:
                    break
        if device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - start) / steps

    return run
