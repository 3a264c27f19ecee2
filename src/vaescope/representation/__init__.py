"""The only stage that calls a trained model: data in, codes out."""

from vaescope.representation.adapters import adapt
from vaescope.representation.encode import Representation, encode

__all__ = ["Representation", "adapt", "encode"]
