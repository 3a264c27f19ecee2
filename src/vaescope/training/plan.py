"""What is trained and how: the plan that members share, and what each member has of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from vaescope.checks import finite_number, is_whole, whole_number
from vaescope.errors import ConfigurationError
from vaescope.objectives import OBJECTIVES, Beta
from vaescope.registry import lookup
from vaescope.training.optimisers import OPTIMISERS, Adam

LARGEST_SEED = 2**62 - 1
MONITOR_STEPS, MOST_LOOKS = 200, 300

# name -> (numbers kept in, numbers computed in, whether float32 products may use TF32)
PRECISIONS: dict[str, tuple[torch.dtype, torch.dtype, bool]] = {
    "float64": (torch.float64, torch.float64, False),
    "float32": (torch.float32, torch.float32, False),
    "tf32": (torch.float32, torch.float32, True),
    "bfloat16": (torch.float32, torch.bfloat16, True),
}


@dataclass(frozen=True)
class Member:
    """One model of an ensemble: what may differ from its neighbours."""

    latents: int = 10
    objective: Any = field(default_factory=Beta)
    learning_rate: float = 1e-4
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "objective", OBJECTIVES.resolve(self.objective))
        if is_whole(self.latents, 1):  # whether it fits is for the data to say
            object.__setattr__(self, "latents", int(self.latents))
        object.__setattr__(self, "learning_rate", finite_number("learning_rate", self.learning_rate, above=0))
        object.__setattr__(self, "seed", whole_number("seed", self.seed, 0, LARGEST_SEED))


@dataclass(frozen=True)
class Plan:
    """What all members of an ensemble share.

    `steps` counts updates. The history has a row every `log_every` steps (the mean over them), and a row on
    held-out items every `evaluate_every` steps, which must be a multiple. The types of the latents are looked at
    every `monitor_every` steps, a multiple too, on `monitor_items` items: by default every 200 steps, and not more
    than 300 times; 0 turns it off.
    """

    steps: int
    batch: int = 64
    optimiser: Any = field(default_factory=Adam)
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
            rows = -(-max(MONITOR_STEPS, self.steps / MOST_LOOKS) // self.log_every)
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

    def monitors_at(self, step: int) -> bool:
        """Whether the types of the latents are looked at after this many steps."""
        return bool(self.monitor_every) and (step == self.steps or step % (self.monitor_every or 1) == 0)
