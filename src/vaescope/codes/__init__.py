"""Codes of items: `Representation`, checked arrays, and files of codes."""

from vaescope.codes.files import read_codes
from vaescope.codes.representation import CodesLike, Representation, means_of

__all__ = ["CodesLike", "Representation", "means_of", "read_codes"]
