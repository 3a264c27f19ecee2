"""The polarised regime inside other training frameworks; each module needs the package that it is named after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def extra(package: str) -> Iterator[None]:
    """Import an optional package inside this block; if it is missing, the error names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        # An installed but broken package misses another module; its own error says which.
        if (error.name or "").partition(".")[0] != package:
            raise
        raise ModuleNotFoundError(
            f"vaescope.integrations.{package} needs the package {package}, which is not installed; "
            f"run `pip install vaescope[{package}]`.",
            name=error.name,
        ) from error
