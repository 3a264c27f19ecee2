"""Encoder and decoder networks, by architecture."""

from vaescope.nets.conv import Conv
from vaescope.nets.conv1d import Conv1d
from vaescope.nets.initialise import INITIALISATIONS, initialise
from vaescope.nets.mlp import ACTIVATIONS, MLP, Affine, FullyConnected
from vaescope.nets.net import NETS, Decoder, Encoder, Net
from vaescope.nets.resnet import NORMALISATIONS, ResNet

__all__ = [
    "ACTIVATIONS",
    "INITIALISATIONS",
    "MLP",
    "NETS",
    "NORMALISATIONS",
    "Affine",
    "Conv",
    "Conv1d",
    "Decoder",
    "Encoder",
    "FullyConnected",
    "Net",
    "ResNet",
    "initialise",
]
