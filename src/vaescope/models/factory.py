"""A factory, a function from a number of latents to a module: how it is called, and what a run keeps of it.

A run keeps no code. It keeps the name of a factory that can be imported, and hashes of its source and of what it
builds, by which a change is noticed.
"""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from vaescope.checks import is_whole
from vaescope.errors import ConfigurationError, quoted
from vaescope.models.factory_source import FactoryFunction, hash_built, source_hashes
from vaescope.models.recognition import Conventions, HasConventions, first_line
from vaescope.numerics import counter

WEIGHTS = "factory weights"  # the stream of their seed


@dataclass(frozen=True)
class FactoryRecord:
    """What a run keeps of a factory.

    Attributes:
        name: 'package.module:name' of a factory that can be imported; None for any other, such as a lambda.
        sources: A hash of the source of the factory, and of each class of the modules that it builds, by name. What
            has no source file is missing.
        built: A hash of the modules that it builds: their classes, settings and shapes.
    """

    name: str | None
    sources: tuple[tuple[str, str], ...]
    built: str

    @classmethod
    def of(cls, function: FactoryFunction, module: nn.Module) -> FactoryRecord:
        """The record of a factory, which built this module."""
        hashes = tuple(sorted(source_hashes(function, module).items()))
        return cls(import_name(function), hashes, hash_built(function, module))

    @classmethod
    def from_plain(cls, table: Mapping[str, object]) -> FactoryRecord:
        """The record that `plain` wrote."""
        name, sources, built = (table.get(field) for field in ("name", "sources", "built"))
        fits = isinstance(name, str | None) and isinstance(sources, Mapping) and isinstance(built, str)
        if not fits or set(table) != {"name", "sources", "built"}:
            raise ConfigurationError(f"a factory must be kept as its name, sources and built, got {sorted(table)}.")
        assert isinstance(name, str | None)
        assert isinstance(sources, Mapping)
        return cls(name, tuple(sorted((str(key), str(value)) for key, value in sources.items())), str(built))

    def plain(self) -> dict[str, object]:
        """The record as a table."""
        return {"name": self.name, "sources": dict(self.sources), "built": self.built}

    @property
    def words(self) -> str:
        """What messages call the factory."""
        return "a factory that cannot be imported by name" if self.name is None else f"the factory {self.name!r}"

    @property
    def argument(self) -> str:
        """How the factory is written in a call."""
        return "factory" if self.name is None else self.name.replace(":", ".")

    def changes(self, now: FactoryRecord) -> list[str]:
        """What differs in another record, in words."""
        before, after = _by_name(self.sources), _by_name(now.sources)
        found = [f"the source of {name}" for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
        return found + (["the settings or shapes of its modules"] if self.built != now.built else [])


def _by_name(sources: tuple[tuple[str, str], ...]) -> dict[str, set[str]]:
    """Hashes by name without the module: a script that is run has none, and has one when it is imported."""
    found: dict[str, set[str]] = {}
    for name, digest in sources:
        found.setdefault(name.rpartition(":")[2], set()).add(digest)
    return found


def checked_factory(function: object) -> FactoryFunction:
    """The function, unless it is a module, a name or anything else that is no factory."""
    if isinstance(function, nn.Module) or not callable(function):
        raise ConfigurationError(
            "model must be a registered name, a table of a name and options, or a function from a number of latents "
            f"to a module, got {quoted(function) if isinstance(function, str) else type(function).__name__}. Write "
            "model=lambda latents: MyVAE(latents)."
        )
    return function


def import_name(function: FactoryFunction) -> str | None:
    """'package.module:name', if importing it gives this function."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__" or module not in sys.modules:
        return None
    found: object = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is function else None


def imported_factory(name: str) -> FactoryFunction:
    """The factory with the name 'package.module:name', which is imported."""
    module, _, path = name.partition(":")
    try:
        found: object = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:  # code of other people runs
        raise ConfigurationError(
            f"model must be the name of a factory that can be imported, as in package.module:name, but {name!r} "
            f"cannot: {first_line(error)}."
        ) from error
    return checked_factory(found)


def factory_name(function: Callable[..., object]) -> str:
    """A short name of a factory, or of another function of the user, for messages."""
    inner = function.func if isinstance(function, partial) else function
    name = getattr(inner, "__name__", type(inner).__name__)
    return "factory" if name == "<lambda>" else str(name)


def called(function: FactoryFunction, latents: int, seed: int) -> object:
    """What a factory returns, its random numbers drawn from the seed; generators continue as if nothing was drawn."""
    name = factory_name(function)
    with seeded_generators(seed, WEIGHTS):
        try:
            return function(latents)
        except ConfigurationError:
            raise
        except Exception as error:
            raise ConfigurationError(
                f"the factory must return a model for any number of latents, but {name}({latents}) fails: "
                f"{first_line(error)}."
            ) from error


def built_module(function: FactoryFunction, latents: int, seed: int) -> Conventions:
    """The module that a factory builds, on the CPU, with what it says about it."""
    found, name = called(function, latents, seed), f"{factory_name(function)}({latents})"
    conventions = found.conventions if isinstance(found, HasConventions) else None
    if conventions is None:
        conventions = Conventions(found if isinstance(found, nn.Module) else None)
    if conventions.module is None:
        raise ConfigurationError(
            f"the factory must return a torch module, got {type(found).__name__} from {name}. Return the model."
        )
    for role, method in (("encode", conventions.encode), ("decode", conventions.decode)):
        if not isinstance(method, str | None):
            raise ConfigurationError(
                f"{role} of the model that {name} wraps must be the name of a method, got a function, which copies of "
                "the model would share. Make it a method of the module."
            )
    if any(is_lazy(value) for value in conventions.module.parameters()):
        raise ConfigurationError(
            f"the model that {name} returns has lazy layers, whose shapes are not known. Give them their sizes."
        )
    # The precision is that of the training.
    freeze(conventions.module.cpu().float())
    if next(conventions.module.parameters(), None) is None:
        raise ConfigurationError(
            f"the factory must return a model to train, but {name} has no parameters that require gradients. Return "
            "one that has some."
        )
    return conventions


def freeze(module: nn.Module) -> None:
    """Make parameters that are not to be trained constants: they become buffers of the same name."""
    for part in module.modules():
        for name, value in list(part._parameters.items()):
            if value is not None and not value.requires_grad:
                del part._parameters[name]
                part.register_buffer(name, value.data)


@contextmanager
def seeded_generators(seed: int, name: str) -> Iterator[None]:
    """The generators of torch, numpy and Python, seeded inside the block; afterwards they continue where they were."""
    before, chosen = (random.getstate(), np.random.get_state()), counter.derived_seed(seed, name)  # noqa: NPY002
    device = torch.device("cuda" if torch.cuda.is_initialized() else "cpu")
    try:
        with counter.seeded(seed, name, device):
            random.seed(chosen)
            np.random.seed(chosen % 2**32)  # noqa: NPY002 - a module of other people may draw from it
            yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002


def checked_factory_size(latents: object, found: tuple[int, ...], name: str) -> None:
    """Raise an error unless the codes of a model have the number of latents that its factory was called with."""
    if len(found) != 1:
        raise ConfigurationError(
            f"{name}({latents}) must return a model whose codes are vectors with {latents} latents, but each item has "
            f"codes of shape {found}. Flatten them in encode, and reshape them in decode."
        )
    if not is_whole(latents, found[0], found[0]):
        raise ConfigurationError(
            f"{name}({latents}) must return a model with {latents} latents, but its encode returns {found[0]}. Use the "
            "argument of the factory as the number of latents."
        )
