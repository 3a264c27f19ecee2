"""A row of a history as `on_row` and trackers receive it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from vaescope.runs.record import Table
from vaescope.training import Member
from vaescope.training.monitor import HistoryValue


@dataclass(frozen=True)
class RecordedRow:
    """A row of the history of a run that was just recorded, with the settings of the run.

    Attributes:
        run: The id of the run.
        member: Latents, objective, learning rate and seed of the model.
        settings: All settings of the run, named as in the table of runs: data, net, steps, ...
        step: Number of steps done.
        split: 'train' (means since the row before), 'test' (held-out items) or 'probe' (types of the latents).
        values: The values by name, as in `Run.history`: the loss and every term, or the counts of types.
    """

    run: str
    member: Member
    settings: Table
    step: int
    split: str
    values: dict[str, HistoryValue]

    @property
    def numbers(self) -> dict[str, float]:
        """The values that are one number, under 'split/name': 'train/loss', 'test/rate', 'probe/active'."""
        return {f"{self.split}/{name}": value for name, value in self.values.items() if isinstance(value, int | float)}


OnRow: TypeAlias = Callable[[RecordedRow], object]
