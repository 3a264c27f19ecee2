"""The modules that a function uses, as far as they can be seen without calling it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Final

from torch import Tensor, nn

# A function may lead to a large program: only what is near it is searched, and no long lists.
MAX_DEPTH, MAX_ENTRIES = 6, 1000
# What holds no module of the user.
CLOSED: Final = (type, ModuleType, Tensor, str, bytes, int, float)


def modules_of(function: object) -> list[nn.Module]:
    """The modules of a function: of its owner, of the variables that it refers to, and of what these hold.

    None stands for no function.
    """
    found: dict[int, nn.Module] = {}
    seen: set[int] = set()
    level: list[object] = [function]
    for _ in range(MAX_DEPTH):
        held = [one for value in level if id(value) not in seen for one in _held(value)]
        seen |= {id(value) for value in level}
        found |= {id(one): one for one in level if isinstance(one, nn.Module)}
        level = held
    return list(found.values())


def _held(value: object) -> Iterator[object]:
    """What a function, a container or any other object of the user refers to."""
    if value is None or isinstance(value, (*CLOSED, nn.Module)):
        return
    if isinstance(value, partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, FunctionType):
        yield from _variables(value)
    elif isinstance(value, dict | list | tuple | set):  # other mappings may load what they hold
        if len(value) <= MAX_ENTRIES:
            yield from value.values() if isinstance(value, dict) else value
    else:
        # A callable object is the function that it is called as.
        yield from getattr(value, "__dict__", {}).values()
        if callable(value):
            yield type(value).__call__


def _variables(function: FunctionType) -> Iterator[object]:
    """The values of the variables of a function that it does not set itself: defaults, enclosing and global ones."""
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not set yet
            continue
    names = set(_names(function.__code__)) & function.__globals__.keys()
    yield from (function.__globals__[name] for name in names)


def _names(code: CodeType) -> Iterator[str]:
    """The names in a function, and in those that it defines."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)
