"""Sizes of layers: whole numbers of at least 1."""

from __future__ import annotations

from vaescope.checks import is_whole
from vaescope.errors import ConfigurationError


def check_sizes(name: str, sizes: object) -> None:
    """Raise an error that names the option unless all sizes are whole numbers of at least 1."""
    if not isinstance(sizes, tuple) or not all(is_whole(size, 1) for size in sizes):
        raise ConfigurationError(f"{name} must be whole numbers of at least 1, got {sizes!r}.")
