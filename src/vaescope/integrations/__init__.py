"""The polarised regime in other people's training loops; each module needs the package that it is named after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def extra(package: str) -> Iterator[None]:
    """Around the import of an optional package: if it is missing, the error names the extra that brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        # A package that is there but broken misses something else, and says so itself.
        if (error.name or "").partition(".")[0] != package:
            raise
        raise ModuleNotFoundError(
            f"vaescope.integrations.{package} needs the package {package}, which is not installed; "
            f"run `pip install vaescope[{package}]`.",
            name=error.name,
        ) from error
