"""Errors for users: each message says what must hold, what was received, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import partial

MAX_QUOTED = 200  # characters of a value in a message


class VaescopeError(Exception):
    """Base of all errors that a user can fix; the command line exits with code 2 on it."""


class UnknownNameError(VaescopeError, LookupError):
    """A name that is not in a registry."""


class DataError(VaescopeError, ValueError):
    """Data that cannot be opened, trained on or diagnosed."""


class ConfigurationError(VaescopeError, ValueError):
    """A setting outside its range, or two settings that exclude each other."""


class LatentError(ConfigurationError):
    """A number of latents that the data or the model do not allow."""


class WriteError(VaescopeError):
    """A file that cannot be written."""


class RunError(VaescopeError):
    """A run folder that is missing, half-written or damaged."""


class MissingVariantError(RunError):
    """A run with a variant that no installed package registers."""


class BusyError(RunError):
    """A run that another process is training."""


class NonFiniteError(VaescopeError, ArithmeticError):
    """Training met the first non-finite number (NaN or infinity), at `step`, in `term`, on `items`."""

    def __init__(self, message: str, *, term: str, member: int, step: int, items: list[int]) -> None:
        super().__init__(message)
        self.term, self.member, self.step, self.items = term, member, step, items

    def __reduce__(self) -> tuple[object, ...]:
        # It crosses processes, and its message alone is not enough to rebuild it.
        return partial(type(self), **self.__dict__), self.args


class DamagedRunWarning(UserWarning):
    """A run, or a file of a store, that is left out because it is damaged or cannot be read."""


class CollapseWarning(UserWarning):
    """Latents that a model used are becoming passive while it trains."""


class RepetitionWarning(UserWarning):
    """Steps that gave a non-finite number once and finite numbers when repeated."""


def unreadable(path: object, error: OSError) -> RunError:
    """The error for a file or a folder that the system does not let us read; its content may be good."""
    return RunError(
        f"{path} must be readable, but the system says: {error.strerror}. Check its name, its permissions and its disk."
    )


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UnknownNameError:
    """The error for a name that is not in a registry, with the nearest known name."""
    names, shown = sorted(known), quoted(name)
    near = difflib.get_close_matches(shown.strip("'"), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return UnknownNameError(f"{kind} must be one of {', '.join(names)}; got {shown}.{hint}")


def quoted(value: object) -> str:
    """A value as messages show it, shortened if it is long."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # too deep, or a number of more digits than Python writes
        return f"a value of type {type(value).__name__} that is too large to show"
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}... ({len(text):,} characters)"
