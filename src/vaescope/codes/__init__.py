"""Codes of items: `Representation`, checked arrays, and files of codes."""

from vaescope.codes.files import read_codes
from vaescope.codes.representation import Representation

__all__ = ["Representation", "read_codes"]
