"""Shapes and types of the whole library are checked while tests run."""

from jaxtyping import install_import_hook

install_import_hook("vaescope", "beartype.beartype")
