"""Encoder and decoder networks, by architecture."""

from vaescope.nets.conv import Conv
from vaescope.nets.initialise import INITIALISATIONS, initialise
from vaescope.nets.mlp import ACTIVATIONS, MLP, Affine, FullyConnected
from vaescope.nets.net import NETS, Decoder, Encoder, Net

__all__ = [
    "ACTIVATIONS",
    "INITIALISATIONS",
    "MLP",
    "NETS",
    "Affine",
    "Conv",
    "Decoder",
    "Encoder",
    "FullyConnected",
    "Net",
    "initialise",
]
