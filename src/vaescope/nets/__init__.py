"""Encoder and decoder networks, by architecture."""

from typing import Any

from vaescope.nets.conv import Conv
from vaescope.nets.initialise import INITIALISATIONS, initialise
from vaescope.nets.mlp import ACTIVATIONS, MLP, Affine, FullyConnected

NETS: dict[str, type[Any]] = {"affine": Affine, "conv": Conv, "fully_connected": FullyConnected, "mlp": MLP}

__all__ = [
    "ACTIVATIONS",
    "INITIALISATIONS",
    "MLP",
    "NETS",
    "Affine",
    "Conv",
    "FullyConnected",
    "initialise",
]
