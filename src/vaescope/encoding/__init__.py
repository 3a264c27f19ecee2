"""The only code that runs a trained model: codes, decoded items, activations, traversals, and measures of them."""

from vaescope.encoding.activations import activations, group_similarity, layer_similarity, layer_widths
from vaescope.encoding.decoders import column_orthogonality, decoder_of, distance_to_orthogonality, factor_grid
from vaescope.encoding.encode import adapt, encode, encode_groups, open_for, recognise, recognised_model
from vaescope.encoding.generate import decode, interpolate, reconstruct, sample
from vaescope.encoding.lower_bound import lower_bound
from vaescope.encoding.reconstructor import Reconstructor
from vaescope.encoding.traversals import Traversal, Traversals, traversals, traversals_from, traverse
from vaescope.encoding.untouched import untouched
from vaescope.encoding.wrap import HasModel, checked_model, model_name, model_of, wrap
from vaescope.encoding.wrapped import WrappedModel

__all__ = [
    "HasModel",
    "Reconstructor",
    "Traversal",
    "Traversals",
    "WrappedModel",
    "activations",
    "adapt",
    "checked_model",
    "column_orthogonality",
    "decode",
    "decoder_of",
    "distance_to_orthogonality",
    "encode",
    "encode_groups",
    "factor_grid",
    "group_similarity",
    "interpolate",
    "layer_similarity",
    "layer_widths",
    "lower_bound",
    "model_name",
    "model_of",
    "open_for",
    "recognise",
    "recognised_model",
    "reconstruct",
    "sample",
    "traversals",
    "traversals_from",
    "traverse",
    "untouched",
    "wrap",
]
