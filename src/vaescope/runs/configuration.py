"""The configuration of a run: everything its weights depend on, and the identity made from it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from vaescope.data.dataset import Dataset, describe
from vaescope.errors import ConfigurationError
from vaescope.models import Architecture
from vaescope.objectives import OBJECTIVES
from vaescope.runs.record import hash_of, identity_of
from vaescope.training import OPTIMISERS, Member, Plan

__all__ = ["FORMAT", "Configuration", "Pruning", "Split", "hash_of", "identity_of"]

FORMAT = 1


@dataclass(frozen=True)
class Split:
    """How the held-out items were drawn; none are when `held_out` is 0."""

    held_out: float | int = 0.1
    seed: int = 0

    def of(self, data: Dataset) -> tuple[Dataset, Dataset | None]:
        """The items to train on and the held-out ones."""
        return data.split(self.held_out, self.seed) if self.held_out else (data, None)


@dataclass(frozen=True)
class Pruning:
    """What the weights of a pruned run were made from, all but their training.

    Attributes:
        run: The id of the run that had more latents.
        kept: Which of them are left.
        items: The fingerprint of the items over which the codes of the others were averaged.
    """

    run: str
    kept: tuple[int, ...]
    items: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "kept", tuple(self.kept))


@dataclass(frozen=True)
class Configuration:
    """One run: data, split, architecture, plan, what is this member's own, and how it was pruned if it was.

    The plan of a pruned run is that of the run it was made from. Only there does `pruned` enter the identity: a fit
    with as many latents is another run, and those without keep the ids that they have.
    """

    data: dict[str, Any]
    split: Split
    architecture: Architecture
    plan: Plan
    member: Member
    pruned: Pruning | None = None

    @classmethod
    def of(cls, data: Dataset, split: Split, architecture: Architecture, plan: Plan, member: Member) -> Configuration:
        """The configuration of training on an opened data set."""
        return cls(describe(data), split, architecture, plan, member)

    def plain(self) -> dict[str, Any]:
        """Nested tables, lists, text and numbers: what run.json holds, and what reading it gives back."""
        member, plan = dataclasses.asdict(self.member), dataclasses.asdict(self.plan)
        member["objective"] = OBJECTIVES.plain(self.member.objective)
        plan["optimiser"] = OPTIMISERS.plain(self.plan.optimiser)
        table = {
            "format": FORMAT,
            "data": self.data,
            "split": dataclasses.asdict(self.split),
            "architecture": self.architecture.plain(),
            "plan": plan,
            "member": member,
            **({} if self.pruned is None else {"pruned": dataclasses.asdict(self.pruned)}),
        }
        return {name: _writable(value, name) for name, value in table.items()}

    @classmethod
    def from_plain(cls, table: dict[str, Any]) -> Configuration:
        """The configuration that `plain` wrote."""
        if table["format"] != FORMAT:
            raise ConfigurationError(f"the format of a configuration must be {FORMAT}, got {table['format']!r}.")
        return cls(
            {name: table["data"][name] for name in ("name", "items", "shape", "fingerprint")},
            Split(**table["split"]),
            Architecture(**table["architecture"]),
            Plan(**table["plan"]),
            Member(**table["member"]),
            Pruning(**table["pruned"]) if "pruned" in table else None,
        )

    @property
    def id(self) -> str:
        """The identity of the run."""
        return identity_of(self.plain())


def _writable(value: Any, path: str) -> Any:
    """The value in the types that JSON has; numpy's numbers become Python's, so that equal settings share an id."""
    if isinstance(value, dict):
        return {key: _writable(entry, f"{path}.{key}") for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(entry, path) for entry in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, str | int | float):
        return value
    raise ConfigurationError(
        f"{path} must be text or a number to be kept in a run, got {type(value).__name__}. Pass a plain number."
    )
