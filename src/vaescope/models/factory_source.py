"""Hashes of what a factory is made of: its source, and the classes, settings and shapes of what it builds."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from functools import partial
from textwrap import dedent
from types import FunctionType
from typing import TypeAlias, TypeGuard

from torch import Tensor, nn

FactoryFunction: TypeAlias = Callable[[int], object]

HASH_DIGITS = 12
STABLE_PACKAGES = ("torch", "vaescope", "builtins", "abc", "typing", "collections")  # whose classes are not hashed
PLAIN_TYPES = (str, int, float, bool, type(None))
LAMBDA = "<lambda>"


def source_hashes(function: FactoryFunction, module: nn.Module) -> dict[str, str]:
    """Hashes of the source of a factory and of the classes of a module that it built, by name.

    What has no source is left out: it was typed in, or made by another program.
    """
    inner = function.func if isinstance(function, partial) else function
    kinds = {base for part in module.modules() for base in type(part).__mro__}
    found = {}
    for one in (inner if inspect.isroutine(inner) or isinstance(inner, type) else type(inner), *kinds):
        if isinstance(one, type) and one.__module__.partition(".")[0] in STABLE_PACKAGES:
            continue
        try:
            text = _lambda_source(one) if _is_lambda(one) else dedent(inspect.getsource(one))
        except (OSError, TypeError):
            continue
        found[_name(one)] = _hash([line.rstrip() for line in text.splitlines() if line.strip()])
    return found


def _is_lambda(one: object) -> TypeGuard[FunctionType]:
    return isinstance(one, FunctionType) and one.__name__ == LAMBDA


def _name(one: object) -> str:
    if _is_lambda(one):
        return LAMBDA
    name, module = str(getattr(one, "__qualname__", "")), str(getattr(one, "__module__", ""))
    return name if module == "__main__" else f"{module}:{name}"


def _lambda_source(function: FunctionType) -> str:
    """The lambda alone: the statement around it, such as the call that it is passed to, does not matter."""
    try:
        tree = ast.parse("".join(inspect.findsource(function)[0]))
    except SyntaxError:  # a cell of a notebook may hold more than Python
        return dedent(inspect.getsource(function))
    places = [
        (line, column)
        for line, _, column, end in function.__code__.co_positions()
        if line is not None and column is not None and end  # others belong to no part of the source
    ]
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda)
        and node.lineno == function.__code__.co_firstlineno
        and all((node.lineno, node.col_offset) <= place <= _end(node) for place in places)
    ]
    if not found:
        raise OSError("the file has changed since it was imported")
    return ast.unparse(max(found, key=lambda node: node.col_offset))  # the innermost


def _end(node: ast.Lambda) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def hash_built(function: FactoryFunction, module: nn.Module) -> str:
    """A hash of what the factory refers to, and of the modules that it builds."""
    parts = [(name, type(part).__qualname__, _settings(part)) for name, part in module.named_modules()]
    shapes = [(name, list(value.shape)) for name, value in module.state_dict().items() if isinstance(value, Tensor)]
    # A list may be a log that the factory writes to.
    referred = {name: value for name, value in _referred(function).items() if not isinstance(value, list)}
    return _hash([_plain(referred), parts, shapes])


def _referred(function: FactoryFunction) -> dict[str, object]:
    """The values that a function takes from elsewhere: of its closure, its module, or a partial call."""
    if isinstance(function, partial):
        given = {str(place): value for place, value in enumerate(function.args)} | function.keywords
        return given | _referred(function.func)
    if inspect.isfunction(function):
        variables = inspect.getclosurevars(function)
        return {**variables.globals, **variables.nonlocals}
    return {} if isinstance(function, type) else dict(getattr(function, "__dict__", {}))


def _settings(part: nn.Module) -> object:
    """The plain attributes of a module; those of torch print what matters."""
    if type(part).__module__.startswith("torch."):
        return part.extra_repr()
    return _plain({name: value for name, value in vars(part).items() if name[0] != "_" and name != "training"})


def _plain(values: Mapping[str, object]) -> dict[str, object]:
    """Numbers, text, and lists of them."""

    def is_plain(value: object) -> bool:
        return isinstance(value, PLAIN_TYPES) or (isinstance(value, tuple | list) and all(map(is_plain, value)))

    return {name: values[name] for name in sorted(values) if is_plain(values[name])}


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:HASH_DIGITS]
