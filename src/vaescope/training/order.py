"""Which items and which noise a member sees at a step: functions of (seed, step) alone."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Int
from torch import Tensor

from vaescope.numerics import counter


class BatchOrder:
    """Every epoch is a fresh permutation of the items for each member; what does not fill a batch waits.

    The permutation of the current epoch is kept, as a cache: any step can be asked for at any time.
    """

    def __init__(self, seeds: Int[Tensor, "members"], items: int, batch: int) -> None:
        self.seeds = seeds
        self.items = items
        self.batch = min(batch, items)
        self.steps_per_epoch = items // self.batch
        self._epoch = -1
        self._order = torch.empty(0)

    def forget(self) -> None:
        """Drop the kept permutation: the seeds are others now."""
        self._epoch = -1

    def indices(self, steps: range) -> Int[Tensor, "steps members batch"]:
        """The items of each step."""
        return torch.stack([self._step(step) for step in steps])

    def _step(self, step: int) -> Int[Tensor, "members batch"]:
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._order = counter.permutation(self.seeds, "batch order", torch.tensor(epoch), self.items)
            self._epoch = epoch
        return self._order[:, position * self.batch : (position + 1) * self.batch]


def draw_noise(
    columns: Mapping[str, int], seeds: Int[Tensor, "members"], steps: range, batch: int, dtype: torch.dtype
) -> dict[str, Tensor]:
    """Standard normal noise for each stream that a model declares: steps x members x batch x columns."""
    number = torch.arange(steps.start, steps.stop, device=seeds.device)
    rows = torch.arange(batch, device=seeds.device)
    return {
        name: counter.normal(seeds, f"noise/{name}", number, rows, width).to(dtype) for name, width in columns.items()
    }
