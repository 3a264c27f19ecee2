"""The convolutional encoder and decoder of signals: items of channels x length."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.errors import ConfigurationError
from vaescope.nets.net import NETS, Net, Shape, check_sizes


@NETS.register("conv1d", summary="convolutions over time and one dense layer on each side, for signals")
@dataclass(frozen=True)
class Conv1d(Net):
    """Convolutions of stride 2 and one hidden layer, mirrored by the decoder; signals of any length and channels.

    Odd lengths are padded with a zero at the end.

    Attributes:
        channels: Filters of each convolution.
        kernel: Kernel size, an even number.
        hidden: Units of the hidden layer.
    """

    convolutional: ClassVar[bool] = True

    channels: tuple[int, ...] = (32, 64, 128)
    kernel: int = 4
    hidden: int = 256

    def __post_init__(self) -> None:
        for name in ("kernel", "hidden"):
            check_sizes(name, (getattr(self, name),))
        check_sizes("channels", self.channels)
        if not self.channels:
            raise ConfigurationError("channels must have a length of at least 1, got ().")
        if self.kernel % 2:
            raise ConfigurationError(f"kernel must be even, got {self.kernel}.")

    def encoder(self, shape: Shape) -> SignalEncoder:
        return SignalEncoder(self, *_signal(shape))

    def decoder(self, inputs: int, shape: Shape) -> SignalDecoder:
        return SignalDecoder(self, inputs, *_signal(shape))

    def lengths(self, length: int) -> list[int]:
        """The length of a signal before and after each convolution."""
        found = [length]
        for _ in self.channels:
            found.append(-(-found[-1] // 2))
        return found


class SignalEncoder(nn.Module):
    """Convolutions, then one hidden layer."""

    def __init__(self, net: Conv1d, channels: int, length: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        lengths = net.lengths(length)
        for before, filters, size in zip((channels, *net.channels), net.channels, lengths, strict=False):
            layers += [
                nn.ConstantPad1d((0, size % 2), 0.0),
                nn.Conv1d(before, filters, net.kernel, stride=2, padding=net.kernel // 2 - 1),
                nn.ReLU(),
            ]
        self.features = net.hidden
        self.convolutions = nn.Sequential(*layers)
        self.hidden = nn.Linear(net.channels[-1] * lengths[-1], net.hidden)

    def forward(self, x: Float[Tensor, "batch channels length"]) -> Float[Tensor, "batch features"]:
        return torch.relu(self.hidden(self.convolutions(x).flatten(1)))


class SignalDecoder(nn.Module):
    """Hidden layers, then transposed convolutions, each cropped to the length of the encoder at the same depth."""

    def __init__(self, net: Conv1d, inputs: int, channels: int, length: int) -> None:
        super().__init__()
        self.lengths = net.lengths(length)[::-1]
        self.start = (net.channels[-1], self.lengths[0])
        self.hidden = nn.Linear(inputs, net.hidden)
        self.spread = nn.Linear(net.hidden, self.start[0] * self.start[1])
        widths = (*net.channels[::-1], channels)
        self.deconvolutions = nn.ModuleList(
            nn.ConvTranspose1d(before, after, net.kernel, stride=2, padding=net.kernel // 2 - 1)
            for before, after in pairwise(widths)
        )

    def forward(self, z: Float[Tensor, "batch latents"]) -> Float[Tensor, "batch channels length"]:
        signal: Tensor = self.spread(torch.relu(self.hidden(z))).unflatten(1, self.start)
        for layer, length in zip(self.deconvolutions, self.lengths[1:], strict=True):
            signal = layer(torch.relu(signal))[..., :length]
        return signal


def _signal(shape: Shape) -> tuple[int, int]:
    if len(shape) != 2:
        raise ConfigurationError(
            f"net 'conv1d' takes signals (channels x length), got items of shape {shape}. "
            f"Use net {'conv' if len(shape) == 3 else 'mlp'!r}."
        )
    return shape[0], shape[1]
