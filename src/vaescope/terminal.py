"""Lines printed to a terminal, which cannot control it, and whether the person there uses the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TextIO

LAYOUT = "\n\t"  # control characters that lines may have

_COMMAND_LINE: ContextVar[bool] = ContextVar("command_line", default=False)


@contextmanager
def command_line() -> Iterator[None]:
    """Inside the block, messages name the options of the command line instead of Python's."""
    token = _COMMAND_LINE.set(True)
    try:
        yield
    finally:
        _COMMAND_LINE.reset(token)


def on_command_line() -> bool:
    """Whether messages are for a person who uses the command line."""
    return _COMMAND_LINE.get()


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
    """Print a warning as one sentence, without its line of code, which does not help users."""
    with suppress(OSError):  # as in Python: training continues if a warning cannot be printed
        print_line(f"warning: {message}", sys.stderr)
