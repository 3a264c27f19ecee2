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


class TrackerError(VaescopeError):
    """A tracker that failed to record a run."""


class NonFiniteError(VaescopeError, ArithmeticError):
    """The first non-finite number (NaN or infinity) in training, at `step`, in `term`, on `items`."""

    def __init__(self, message: str, *, term: str, member: int, step: int, items: list[int]) -> None:
        super().__init__(message)
        self.term, self.member, self.step, self.items = term, member, step, items

    def __reduce__(self) -> tuple[object, ...]:
        # It is pickled between processes, and its message is not enough to rebuild it.
        return partial(type(self), **self.__dict__), self.args


class DamagedRunWarning(UserWarning):
    """A run, or a file of a store, that is left out because it is damaged or cannot be read."""


class ChangedFactoryWarning(UserWarning):
    """A factory that is not the same as when a run was trained with it."""


class FactorTypeWarning(UserWarning):
    """A factor that is treated as classes or as continuous although its values look like the other."""


class DataWarning(UserWarning):
    """Something that was chosen or left out when data were opened."""


class LikelihoodWarning(UserWarning):
    """Items of a kind for which another likelihood is better."""


class PixelRangeWarning(UserWarning):
    """Pixels whose white may not be the one that is assumed."""


class ScaleWarning(UserWarning):
    """Items whose numbers are too large for a net to learn from."""


class CollapseWarning(UserWarning):
    """Latents that a model used are becoming passive during training."""


class FinalTypesWarning(UserWarning):
    """A trained model whose latents have no types, because its codes cannot be analysed."""


class RepetitionWarning(UserWarning):
    """Steps that gave a non-finite number once and finite numbers when repeated."""


def unreadable(path: object, error: OSError) -> RunError:
    """The error for a file or a folder that the system refuses to read; its content may be intact."""
    return RunError(
        f"{path} must be readable, but the system says: {error.strerror}. Check its name, its permissions and its disk."
    )


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UnknownNameError:
    """The error for a name that is not in a registry, with the nearest known name."""
    names, shown = sorted(known), quoted(name)
    hint = did_you_mean(shown.strip("'"), names)
    return UnknownNameError(f"{kind} must be one of {', '.join(names)}; got {shown}.{hint}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message that suggests the nearest known name, if there is one."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def quoted(value: object) -> str:
    """A value as messages show it, shortened if it is long."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # too deeply nested, or a number with more digits than Python prints
        return f"a value of type {type(value).__name__} that is too large to show"
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}... ({len(text):,} characters)"
