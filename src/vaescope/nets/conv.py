"""The convolutional encoder and decoder of the studies (Bonheme, Tables C.3 and D.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.errors import ConfigurationError
from vaescope.nets.convolution import Convolution, Deconvolution
from vaescope.nets.net import NETS, Net, Shape, check_sizes


@NETS.register("conv", summary="four convolutions and one dense layer on each side", source="Bonheme, Table C.3")
@dataclass(frozen=True)
class Conv(Net):
    """Four convolutions of stride 2 and one hidden layer, mirrored by the decoder; any image size and channels.

    Odd sizes are padded with zeros below and on the right. Hidden vectors are images with the channels last, the
    fastest memory format for convolutions.

    Attributes:
        kernels: Kernel sizes of the encoder; the default is that of the code of the studies, the table has
            (4, 4, 4, 4). The decoder's are 4 x 4.
        channels: Filters of each convolution.
        hidden: Units of the hidden layer.
    """

    convolutional: ClassVar[bool] = True

    kernels: tuple[int, ...] = (4, 4, 2, 2)
    channels: tuple[int, ...] = (32, 32, 64, 64)
    hidden: int = 256

    def __post_init__(self) -> None:
        check_sizes("kernels", self.kernels)
        check_sizes("channels", self.channels)
        check_sizes("hidden", (self.hidden,))
        if len(self.kernels) != len(self.channels) or not self.kernels:
            raise ConfigurationError(
                f"kernels and channels must have the same length of at least 1, got {self.kernels} and {self.channels}."
            )
        if any(kernel % 2 for kernel in self.kernels):
            raise ConfigurationError(f"kernels must be even, got {self.kernels}. Use 2 or 4.")

    def encoder(self, shape: Shape) -> ConvEncoder:
        return ConvEncoder(self, image_shape("conv", shape))

    def decoder(self, inputs: int, shape: Shape) -> ConvDecoder:
        return ConvDecoder(self, inputs, image_shape("conv", shape))


class ConvEncoder(nn.Module):
    """Convolutions, then one hidden layer."""

    def __init__(self, net: Conv, shape: tuple[int, int, int]) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = shape[0]
        for filters, kernel in zip(net.channels, net.kernels, strict=True):
            layers += [Convolution(channels, filters, kernel), nn.ReLU(inplace=True)]
            channels = filters
        self.features = net.hidden
        self.convolutions = nn.Sequential(*layers)
        self.hidden = nn.Linear(channels * math.prod(halved_sizes(shape, len(net.channels))[-1]), net.hidden)

    def forward(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch features"]:
        return torch.relu(self.hidden(self.convolutions(x).permute(0, 2, 3, 1).flatten(1)))


class ConvDecoder(nn.Module):
    """One hidden layer, then deconvolutions."""

    def __init__(self, net: Conv, inputs: int, shape: tuple[int, int, int]) -> None:
        super().__init__()
        sizes = halved_sizes(shape, len(net.channels))[::-1]
        self.start = (*sizes[0], net.channels[-1])
        self.hidden = nn.Linear(inputs, net.hidden)
        self.spread = nn.Linear(net.hidden, math.prod(self.start))
        layers: list[nn.Module] = []
        filters = (*net.channels[-2::-1], shape[0])
        channels = net.channels[-1]
        for count, size in zip(filters, sizes[1:], strict=True):
            layers += [Deconvolution(channels, count, 4, size), nn.ReLU(inplace=True)]
            channels = count
        self.deconvolutions = nn.Sequential(*layers[:-1])

    def forward(self, z: Float[Tensor, "batch latents"]) -> Float[Tensor, "batch channels height width"]:
        image = torch.relu(self.spread(torch.relu(self.hidden(z)))).unflatten(1, self.start)
        output: Tensor = self.deconvolutions(image.permute(0, 3, 1, 2))
        return output


def halved_sizes(shape: tuple[int, int, int], halvings: int) -> list[tuple[int, int]]:
    """The height and width of an image and of each of its `halvings`, rounded up."""
    sizes = [shape[1:]]
    for _ in range(halvings):
        sizes.append((-(-sizes[-1][0] // 2), -(-sizes[-1][1] // 2)))
    return sizes


def image_shape(net: str, shape: Shape) -> tuple[int, int, int]:
    """The channels, height and width of an image, or an error that names the net."""
    if len(shape) != 3:
        raise ConfigurationError(
            f"net {net!r} takes images (channels x height x width), got items of shape {shape}. Use net 'mlp'."
        )
    return shape[0], shape[1], shape[2]
