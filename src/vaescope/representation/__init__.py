"""The only stage that calls a trained model: data in, codes out, and items for codes."""

from vaescope.representation.activations import activations, layer_widths
from vaescope.representation.adapters import adapt
from vaescope.representation.encode import Representation, encode
from vaescope.representation.traversals import Traversal, Traversals, traversals, traverse

__all__ = [
    "Representation",
    "Traversal",
    "Traversals",
    "activations",
    "adapt",
    "encode",
    "layer_widths",
    "traversals",
    "traverse",
]
