"""Residual encoder and decoder for larger images (He et al., 2016, Deep residual learning for image recognition)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.checks import whole_number
from vaescope.nets.conv import halved_sizes, image_shape
from vaescope.nets.convolution import Convolution, Deconvolution
from vaescope.nets.net import NETS, Net, Shape, check_sizes
from vaescope.registry import lookup

KERNEL = 4  # kernel of the layers that halve and double images
GROUPS = 8  # maximum number of groups of group normalisation
MAX_DEPTH = 100
FIRST_GATE = 0.1

NORMALISATIONS: dict[str, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm2d,
    "group": lambda channels: nn.GroupNorm(math.gcd(channels, GROUPS), channels),
    "none": lambda channels: nn.Identity(),
}


@NETS.register("resnet", summary="residual blocks, for images of 32 to 256 pixels", source="He et al., 2016")
@dataclass(frozen=True)
class ResNet(Net):
    """Convolutions that halve the image, each followed by residual blocks, mirrored by the decoder.

    Images are halved until no side has more than `smallest` pixels. The blocks begin close to the identity: the
    output of each is multiplied by a learned gate that starts at 0.1.

    Attributes:
        depth: Residual blocks at each size; each has two convolutions.
        width: Filters after the first halving; they double with each further one.
        widest: The largest number of filters.
        smallest: Pixels of the smallest image.
        normalisation: 'batch', 'group' or 'none'. Batch normalisation has statistics that training updates and
            evaluation uses.
    """

    convolutional: ClassVar[bool] = True

    depth: int = 1
    width: int = 32
    widest: int = 256
    smallest: int = 4
    normalisation: str = "batch"

    def __post_init__(self) -> None:
        for name in ("width", "widest", "smallest"):
            check_sizes(name, (getattr(self, name),))
        whole_number("depth", self.depth, 0, MAX_DEPTH)
        lookup(NORMALISATIONS, self.normalisation, "normalisation")

    def encoder(self, shape: Shape) -> ResNetEncoder:
        return ResNetEncoder(self, image_shape("resnet", shape))

    def decoder(self, inputs: int, shape: Shape) -> ResNetDecoder:
        return ResNetDecoder(self, inputs, image_shape("resnet", shape))

    @property
    def biased(self) -> bool:
        """Whether convolutions have biases; batch normalisation makes them redundant."""
        return self.normalisation != "batch"

    def filters(self, shape: tuple[int, int, int]) -> list[int]:
        """The number of filters after each halving of an image."""
        halvings = max(1, math.ceil(math.log2(max(shape[1:]) / self.smallest)))
        return [min(self.width * 2**halving, max(self.widest, self.width)) for halving in range(halvings)]

    def normalised(self, channels: int) -> nn.Sequential:
        """Normalisation and the activation after it."""
        return nn.Sequential(NORMALISATIONS[self.normalisation](channels), nn.ReLU())


class ResidualBlock(nn.Module):
    """Two convolutions of 3 x 3, added to their input (He et al., 2016, Identity mappings, figure 1b)."""

    def __init__(self, net: ResNet, channels: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            net.normalised(channels),
            nn.Conv2d(channels, channels, 3, padding=1, bias=net.biased),
            net.normalised(channels),
            nn.Conv2d(channels, channels, 3, padding=1, bias=net.biased),
        )
        self.gate = nn.Parameter(torch.full((1,), FIRST_GATE))

    def forward(self, x: Tensor) -> Tensor:
        residual: Tensor = self.residual(x)
        return x + self.gate * residual


class ResNetEncoder(nn.Module):
    """Halvings and residual blocks; the features are all numbers of the smallest image."""

    def __init__(self, net: ResNet, shape: tuple[int, int, int]) -> None:
        super().__init__()
        filters = net.filters(shape)
        stages: list[nn.Module] = []
        for channels, count in zip((shape[0], *filters), filters, strict=False):
            stages += [Convolution(channels, count, KERNEL, net.biased, normalised=True)]
            stages += [ResidualBlock(net, count) for _ in range(net.depth)]
        self.stages = nn.Sequential(*stages, net.normalised(filters[-1]))
        self.features = filters[-1] * math.prod(halved_sizes(shape, len(filters))[-1])

    def forward(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch features"]:
        features: Tensor = self.stages(x)
        return features.flatten(1)


class ResNetDecoder(nn.Module):
    """The smallest image from the code, then residual blocks and doublings."""

    def __init__(self, net: ResNet, inputs: int, shape: tuple[int, int, int]) -> None:
        super().__init__()
        filters = net.filters(shape)
        sizes = halved_sizes(shape, len(filters))[::-1]
        self.start = (filters[-1], *sizes[0])
        self.spread = nn.Linear(inputs, math.prod(self.start))
        stages: list[nn.Module] = []
        counts = (*filters[-2::-1], shape[0])
        for place, (channels, count, size) in enumerate(zip(filters[::-1], counts, sizes[1:], strict=True)):
            last = place == len(counts) - 1
            stages += [ResidualBlock(net, channels) for _ in range(net.depth)]
            up = Deconvolution(channels, count, KERNEL, size, net.biased or last, normalised=not last)
            stages += [net.normalised(channels), up]
        self.stages = nn.Sequential(*stages)

    def forward(self, z: Float[Tensor, "batch latents"]) -> Float[Tensor, "batch channels height width"]:
        output: Tensor = self.stages(self.spread(z).unflatten(1, self.start))
        return output
