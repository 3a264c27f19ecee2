"""One row of the history of a training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

HistoryValue: TypeAlias = float | str | list[float]


@dataclass(frozen=True)
class HistoryRow:
    """The values of one member up to a step.

    Attributes:
        member: Position of the member in its ensemble.
        step: Number of steps done.
        split: 'train' (means since the row before), 'test' (held-out items) or 'probe' (types of the latents).
        values: The values by name.
    """

    member: int
    step: int
    split: str
    values: dict[str, HistoryValue]
