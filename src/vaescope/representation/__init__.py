"""The only stage that calls a trained model: data in, codes out."""

from vaescope.representation.activations import activations, layer_widths
from vaescope.representation.adapters import adapt
from vaescope.representation.encode import Representation, encode

__all__ = ["Representation", "activations", "adapt", "encode", "layer_widths"]
