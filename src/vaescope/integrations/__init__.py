"""VAEs and the polarised regime inside other frameworks; each module needs the package of the same name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def extra(package: str) -> Iterator[None]:
    """Import an optional package inside this block; if it is missing, the error names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        # If a package is installed but broken, another module is missing; the original error names it.
        if (error.name or "").partition(".")[0] != package:
            raise
        raise ModuleNotFoundError(
            f"vaescope.integrations.{package} needs the package {package}, which is not installed; "
            f"run `pip install vaescope[{package}]`.",
            name=error.name,
        ) from error
