"""Codes: what a model says of items, as arrays and in files."""

from vaescope.codes.representation import Representation

__all__ = ["Representation"]
