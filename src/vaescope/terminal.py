"""Lines for people on a terminal, which no name, no data and no error in them can steer."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TextIO

LAYOUT = "\n\t"  # control characters that lines may have


def printable(text: str) -> str:
    """The text with everything escaped that `repr` escapes, except line ends and tabs."""
    if text.isprintable():
        return text
    kept = (one if one.isprintable() or one in LAYOUT else one.encode("unicode_escape").decode() for one in text)
    return "".join(kept)


def print_line(text: str, stream: TextIO | None = None) -> None:
    """Print text to a stream (default: stdout)."""
    print(printable(text), file=stream)


def print_warning(message: Warning | str, *where: object, **more: object) -> None:
    """Print a warning as one sentence, without the line of code that it comes from, which helps no user."""
    with suppress(OSError):  # as in Python itself: a warning that nobody can see ends no training
        print_line(f"warning: {message}", sys.stderr)
