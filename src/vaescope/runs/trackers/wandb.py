"""Weights & Biases: one run of a project for each run; WANDB_MODE=offline keeps it on this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vaescope.runs.record import COMPLETE, FAILED
from vaescope.runs.recorded_row import RecordedRow
from vaescope.runs.trackers.tracker import TRACKERS, RunEnd, RunStart, Tracker, required

if TYPE_CHECKING:
    from wandb import Run

PROJECT = "vaescope"
EXIT_CODES = {COMPLETE: 0, FAILED: 1}
INTERRUPTED_CODE = 130  # the exit code of a process that Ctrl-C ended


@TRACKERS.register("wandb", summary="a run of a W&B project; WANDB_MODE=offline keeps it on this machine")
@dataclass(frozen=True)
class WandB(Tracker):
    """A run of a Weights & Biases project.

    Attributes:
        project: Default: WANDB_PROJECT if it is set, else 'vaescope'.
        entity: User or team; default: W&B's own choice, which WANDB_ENTITY sets.
    """

    project: str | None = None
    entity: str | None = None

    def check(self) -> None:
        """Raise an error unless wandb is installed."""
        required("wandb")

    def start(self, run: RunStart) -> WandBSession:
        """Begin a run with the settings as its configuration, or resume it."""
        import wandb

        begun = wandb.init(
            project=self.project or os.environ.get("WANDB_PROJECT") or PROJECT,
            entity=self.entity,
            id=run.id,
            name=run.id,
            config=run.settings,
            resume="allow",
            reinit="create_new",  # members of an ensemble are open at the same time
            settings=wandb.Settings(console="off"),  # which would hold the output of all of them
        )
        return WandBSession(begun)


@dataclass(frozen=True)
class WandBSession:
    """A run in Weights & Biases."""

    run: Run

    def log(self, row: RecordedRow) -> None:
        """Log each number of the row at its step; W&B has the rows before the step at which a resumed run starts."""
        if row.step >= self.run.starting_step:
            self.run.log(row.numbers, step=row.step)

    def finish(self, end: RunEnd) -> None:
        """Add how the run ended to its summary, and close it."""
        self.run.summary.update(end.facts())
        self.run.finish(exit_code=EXIT_CODES.get(end.status, INTERRUPTED_CODE))
