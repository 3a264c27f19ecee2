"""Fully connected encoders and decoders: of any widths, and those of the studies (Bonheme, Tables C.4 and D.3)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from vaescope.nets.net import NETS, Net, Shape, check_sizes
from vaescope.registry import lookup

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "leaky_relu": nn.LeakyReLU,
    "sigmoid": nn.Sigmoid,
    "softplus": nn.Softplus,
}


@NETS.register("mlp", summary="dense layers of any widths")
@dataclass(frozen=True)
class MLP(Net):
    """Hidden layers with the given widths and activation on each side; images are flattened."""

    takes_vectors: ClassVar[bool] = True

    encoder_widths: tuple[int, ...] = (400, 400)
    decoder_widths: tuple[int, ...] = (400, 400)
    encoder_activation: str = "relu"
    decoder_activation: str = "relu"

    def __post_init__(self) -> None:
        check_sizes("encoder_widths", self.encoder_widths)
        check_sizes("decoder_widths", self.decoder_widths)
        for activation in (self.encoder_activation, self.decoder_activation):
            lookup(ACTIVATIONS, activation, "activation")

    def encoder(self, shape: Shape) -> VectorEncoder:
        return VectorEncoder(math.prod(shape), self.encoder_widths, self.encoder_activation)

    def decoder(self, inputs: int, shape: Shape) -> VectorDecoder:
        return VectorDecoder(inputs, self.decoder_widths, shape, self.decoder_activation)


@NETS.register("fully_connected", summary="dense layers, 1200 wide", source="Bonheme, Table C.4")
@dataclass(frozen=True)
class FullyConnected(Net):
    """Two ReLU and three tanh layers of 1200, as in the code of the studies (the table begins with 256)."""

    takes_vectors: ClassVar[bool] = True

    decoder_widths: tuple[int, ...] = (1200, 1200, 1200)

    def __post_init__(self) -> None:
        check_sizes("decoder_widths", self.decoder_widths)

    def encoder(self, shape: Shape) -> VectorEncoder:
        return VectorEncoder(math.prod(shape), (1200, 1200), "relu")

    def decoder(self, inputs: int, shape: Shape) -> VectorDecoder:
        return VectorDecoder(inputs, self.decoder_widths, shape, "tanh")


@NETS.register("affine", summary="one affine map on each side", source="Bonheme, section 4.2")
@dataclass(frozen=True)
class Affine(Net):
    """No hidden layer: the heads and the decoder are affine maps (the linear case of Bonheme, section 4.2)."""

    takes_vectors: ClassVar[bool] = True

    def encoder(self, shape: Shape) -> VectorEncoder:
        return VectorEncoder(math.prod(shape), (), "relu")

    def decoder(self, inputs: int, shape: Shape) -> VectorDecoder:
        return VectorDecoder(inputs, (), shape, "relu")


class VectorEncoder(nn.Module):
    """Flatten, then hidden layers."""

    def __init__(self, inputs: int, widths: tuple[int, ...], activation: str) -> None:
        super().__init__()
        self.features = widths[-1] if widths else inputs
        self.layers = hidden_layers((inputs, *widths), ACTIVATIONS[activation])

    def forward(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch features"]:
        features: Tensor = self.layers(x.flatten(1))
        return features


class VectorDecoder(nn.Module):
    """Hidden layers, then an affine map to the item's shape."""

    def __init__(self, inputs: int, widths: tuple[int, ...], shape: tuple[int, ...], activation: str) -> None:
        super().__init__()
        self.shape = shape
        self.layers = hidden_layers((inputs, *widths), ACTIVATIONS[activation])
        self.output = nn.Linear((inputs, *widths)[-1], math.prod(shape))

    def forward(self, z: Float[Tensor, "batch latents"]) -> Float[Tensor, "batch ..."]:
        output: Tensor = self.output(self.layers(z)).unflatten(1, self.shape)
        return output


def hidden_layers(widths: tuple[int, ...], activation: Callable[[], nn.Module]) -> nn.Sequential:
    """Affine maps between the widths, each followed by the activation."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers)
