"""Settings of training: the plan that members share, and the settings of each member."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from vaescope.checks import finite_number, is_whole, whole_number
from vaescope.errors import ConfigurationError
from vaescope.objectives import OBJECTIVES, Beta, Objective, form
from vaescope.registry import lookup
from vaescope.training.optimisers import OPTIMISERS, Adam, Optimiser

LARGEST_SEED = 2**62 - 1
MONITOR_STEPS, MAX_PROBES = 200, 300


class Precision(NamedTuple):
    """The types of numbers in training.

    Attributes:
        kept: The type of parameters and of the loss.
        computed: The type inside the model.
        tf32: Whether float32 products may use TF32.
    """

    kept: torch.dtype
    computed: torch.dtype
    tf32: bool


PRECISIONS: dict[str, Precision] = {
    "float64": Precision(torch.float64, torch.float64, False),
    "float32": Precision(torch.float32, torch.float32, False),
    "tf32": Precision(torch.float32, torch.float32, True),
    "bfloat16": Precision(torch.float32, torch.bfloat16, True),
}


@dataclass(frozen=True)
class Member:
    """One model of an ensemble: the settings that may differ between members.

    Attributes:
        latents: The number of latents.
        objective: The objective; also accepted as a name or as a table `{"name": ..., option: value}`.
        learning_rate: The learning rate of the optimiser.
        seed: Seed of the initial weights, the order of items and the noise.
    """

    latents: int = 10
    objective: Objective = field(default_factory=Beta)
    learning_rate: float = 1e-4
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "objective", OBJECTIVES.resolve(self.objective))
        if is_whole(self.latents, 1):  # the upper bound depends on the data
            object.__setattr__(self, "latents", int(self.latents))
        object.__setattr__(self, "learning_rate", finite_number("learning_rate", self.learning_rate, above=0))
        object.__setattr__(self, "seed", whole_number("seed", self.seed, 0, LARGEST_SEED))


@dataclass(frozen=True)
class Plan:
    """The settings that all members of an ensemble share.

    Attributes:
        steps: Number of updates.
        batch: Items in a batch.
        optimiser: The optimiser; also accepted as a name or as a table `{"name": ..., option: value}`.
        precision: A name in `PRECISIONS`.
        log_every: Steps between rows of the history, each the mean over these steps.
        evaluate_every: Steps between evaluations on held-out items; a multiple of `log_every`.
        evaluation_items: Maximum number of held-out items.
        monitor_every: Steps between measurements of the types of the latents; a multiple of `log_every`. Default:
            200, and more for long trainings, so that there are at most 300; 0 turns them off.
        monitor_items: Number of items to measure the types on.
    """

    steps: int
    batch: int = 64
    optimiser: Optimiser = field(default_factory=Adam)
    precision: str = "float32"
    log_every: int = 50
    evaluate_every: int = 500
    evaluation_items: int = 2048
    monitor_every: int | None = None
    monitor_items: int = 512

    def __post_init__(self) -> None:
        object.__setattr__(self, "optimiser", OPTIMISERS.resolve(self.optimiser))
        lookup(PRECISIONS, self.precision, "precision")
        for name in ("steps", "batch", "log_every", "evaluate_every", "evaluation_items", "monitor_items"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), 1))
        if self.monitor_every is None:
            rows = -(-max(MONITOR_STEPS, self.steps / MAX_PROBES) // self.log_every)
            object.__setattr__(self, "monitor_every", int(rows) * self.log_every)
        object.__setattr__(self, "monitor_every", whole_number("monitor_every", self.monitor_every, 0))
        for name in ("evaluate_every", "monitor_every"):
            if getattr(self, name) % self.log_every:
                raise ConfigurationError(
                    f"{name} must be a multiple of log_every ({self.log_every}), got {getattr(self, name)}."
                )

    def next_stop(self, step: int) -> int:
        """The step at which the next row of the history is due."""
        return min(self.steps, (step // self.log_every + 1) * self.log_every)

    def evaluates_at(self, step: int) -> bool:
        """Whether held-out items are evaluated after this many steps."""
        return step == self.steps or step % self.evaluate_every == 0

    def has_row(self, step: int, split: str) -> bool:
        """Whether the history has a row of this split ('train', 'test' or 'probe') at a step where training stopped."""
        due = {"test": self.evaluates_at, "probe": self.monitors_at}
        return split not in due or due[split](step)

    def monitors_at(self, step: int) -> bool:
        """Whether the types of the latents are measured after this many steps."""
        return bool(self.monitor_every) and (step == self.steps or step % (self.monitor_every or 1) == 0)


def check_members(members: tuple[Member, ...]) -> None:
    """Raise an error unless there is at least one member and all share one form of objective."""
    if not members:
        raise ConfigurationError("an ensemble needs at least one member, got none.")
    if len({form(member.objective) for member in members}) > 1:
        kinds = {type(member.objective).__name__ for member in members}
        # If the classes are equal, a field that is not a number differs; only their full text shows it.
        names = sorted(kinds if len(kinds) > 1 else {str(member.objective) for member in members})
        raise ConfigurationError(
            "members of an ensemble must share one form of objective and differ in its strengths only, got "
            f"{', '.join(names)}. Train them as separate ensembles."
        )
