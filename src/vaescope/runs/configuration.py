"""The configuration of a run: everything that its weights depend on, and the id made from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypedDict, cast

import cattrs
import numpy as np
from cattrs.gen import make_dict_unstructure_fn, override
from torch import Tensor

from vaescope.checks import LARGEST_NUMBER, is_whole
from vaescope.data.dataset import Dataset, describe
from vaescope.errors import ConfigurationError, quoted
from vaescope.likelihoods import LIKELIHOODS
from vaescope.models import MODELS, AnyArchitecture, Architecture, FactoryArchitecture, TrainableModel
from vaescope.nets import NETS
from vaescope.objectives import OBJECTIVES
from vaescope.posteriors import POSTERIORS
from vaescope.priors import PRIORS
from vaescope.registry import Registry
from vaescope.runs.record import FORMAT, Plugin, Table, identity_of, strict_converter
from vaescope.runs.rows import variants_in
from vaescope.training import OPTIMISERS, Member, Plan

REGISTRIES: dict[str, Registry[Any]] = {
    "model": MODELS,
    "net": NETS,
    "posterior": POSTERIORS,
    "prior": PRIORS,
    "likelihood": LIKELIHOODS,
    "optimiser": OPTIMISERS,
    "objective": OBJECTIVES,
}


class DataDescription(TypedDict):
    """The facts about a data set that a configuration keeps; the name is not part of the id."""

    name: str
    items: int
    shape: list[int]
    fingerprint: str


@dataclass(frozen=True)
class Split:
    """How held-out items are drawn: `held_out` is a share (float) or a number of items (int), 0 for none."""

    held_out: float | int = 0.1
    seed: int = 0

    def of(self, data: Dataset) -> tuple[Dataset, Dataset | None]:
        """The items to train on, and the held-out items."""
        return data.split(self.held_out, self.seed) if self.held_out else (data, None)


@dataclass(frozen=True)
class Pruning:
    """What the weights of a pruned run were made from.

    Attributes:
        run: The id of the original run.
        kept: The latents that were kept.
        items: The fingerprint of the items over which the codes of the dropped latents were averaged.
    """

    run: str
    kept: tuple[int, ...]
    items: str


@dataclass(frozen=True)
class Configuration:
    """One run: data, split, architecture, training plan, the member's own settings, and how it was pruned.

    The plan of a pruned run is that of the original run. `pruned` and `start`, the id of the run from whose weights
    training starts, are part of the id only if they are set, so a pruned run and a run trained with as many latents
    differ, and other runs keep their ids.
    """

    data: DataDescription
    split: Split
    architecture: AnyArchitecture
    plan: Plan
    member: Member
    pruned: Pruning | None = None
    start: str | None = None

    def __post_init__(self) -> None:
        shape = self.data["shape"]
        if not (shape and all(is_whole(size, 1) for size in shape) and math.prod(shape) <= LARGEST_NUMBER):
            raise ConfigurationError(
                f"the shape of an item must be whole numbers of at least 1, whose product is at most {LARGEST_NUMBER}, "
                f"got {quoted(shape)}."
            )

    @classmethod
    def of(
        cls,
        data: Dataset,
        split: Split,
        architecture: AnyArchitecture,
        plan: Plan,
        member: Member,
        start: str | None = None,
    ) -> Configuration:
        """The configuration of training on an opened data set."""
        return cls(cast(DataDescription, describe(data)), split, architecture, plan, member, start=start)

    def plain(self) -> Table:
        """The configuration as run.json has it, in tables, lists, text and numbers."""
        table = {"format": FORMAT, **_converter().unstructure(self)}
        return {name: _json_value(value, name) for name, value in table.items()}

    @classmethod
    def from_plain(cls, table: Mapping[str, Any]) -> Configuration:
        """The configuration that `plain` wrote."""
        if table["format"] != FORMAT:
            raise ConfigurationError(f"the format of a configuration must be {FORMAT}, got {table['format']!r}.")
        try:
            return _converter().structure({name: value for name, value in table.items() if name != "format"}, cls)
        except cattrs.errors.ForbiddenExtraKeysError as error:
            raise ConfigurationError(f"a configuration must have known entries only: {error}.") from error

    @property
    def id(self) -> str:
        """The id of the run."""
        return identity_of(self.plain())

    def build(self, weights: Mapping[str, Tensor]) -> TrainableModel:
        """The model with these weights and their precision, in evaluation mode."""
        model = self.architecture.build(tuple(self.data["shape"]), self.member.latents, seed=None)
        # A file gives its tensors in any order, and counts of batches are whole numbers.
        kept = next(tensor.dtype for tensor in weights.values() if tensor.is_floating_point())
        model.to(kept).load_state_dict(weights)
        return model.eval()

    def plugins(self) -> tuple[Plugin, ...]:
        """The variants that come from other packages."""
        found = []
        for kind, name in variants_in(self.plain()).items():
            registry = REGISTRIES[kind]
            module = registry[name].__module__
            if module.partition(".")[0] != "vaescope":
                package, _, version = (registry.distribution(name) or "").partition(" ")
                found.append(Plugin(kind, name, module, package or None, version or None))
        return tuple(found)


def missing_variants(table: Mapping[str, Any]) -> dict[str, str]:
    """Kind -> name of the variants of a configuration that no registry knows."""
    return {kind: name for kind, name in variants_in(table).items() if name not in REGISTRIES[kind]}


@cache
def _converter() -> cattrs.Converter:
    converter = strict_converter()
    # Parts are written with their registered names; Member, Plan and Architecture resolve them when they are built.
    converter.register_unstructure_hook(Architecture, Architecture.plain)
    converter.register_unstructure_hook(FactoryArchitecture, FactoryArchitecture.plain)
    objective, optimiser = override(unstruct_hook=OBJECTIVES.plain), override(unstruct_hook=OPTIMISERS.plain)
    converter.register_unstructure_hook(Member, make_dict_unstructure_fn(Member, converter, objective=objective))
    converter.register_unstructure_hook(Plan, make_dict_unstructure_fn(Plan, converter, optimiser=optimiser))
    converter.register_structure_hook(AnyArchitecture, lambda table, _: _architecture(table))
    for kind in (Plan, Member):
        converter.register_structure_hook(kind, lambda table, kind: kind(**table))
    optional = override(omit_if_default=True)
    omitted = make_dict_unstructure_fn(Configuration, converter, pruned=optional, start=optional)
    converter.register_unstructure_hook(Configuration, omitted)
    return converter


def _architecture(table: Mapping[str, Any]) -> AnyArchitecture:
    """The architecture of a configuration: of registered parts, or of a factory."""
    return FactoryArchitecture.from_plain(table) if "factory" in table else Architecture(**table)


def _json_value(value: object, path: str) -> object:
    """The value in the types that JSON has; numpy's numbers become Python's, so that equal settings share an id."""
    if isinstance(value, dict):
        return {key: _json_value(entry, f"{path}.{key}") for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(entry, path) for entry in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, str | int | float):
        return value
    raise ConfigurationError(
        f"{path} must be text or a number to be kept in a run, got {type(value).__name__}. Pass a plain number."
    )
