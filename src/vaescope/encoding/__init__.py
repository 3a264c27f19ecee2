"""The only code that runs a trained model: codes, activations, traversals, and measures that need them."""

from vaescope.encoding.activations import activations, group_similarity, layer_similarity, layer_widths
from vaescope.encoding.decoders import column_orthogonality, decoder_of, distance_to_orthogonality, factor_grid
from vaescope.encoding.encode import adapt, encode
from vaescope.encoding.traversals import Traversal, Traversals, traversals, traverse

__all__ = [
    "Traversal",
    "Traversals",
    "activations",
    "adapt",
    "column_orthogonality",
    "decoder_of",
    "distance_to_orthogonality",
    "encode",
    "factor_grid",
    "group_similarity",
    "layer_similarity",
    "layer_widths",
    "traversals",
    "traverse",
]
