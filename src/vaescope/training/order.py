"""The items and the noise of a member at a step, as functions of (seed, step) alone."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Int
from torch import Tensor

from vaescope.numerics import counter


class BatchOrder:
    """A new permutation of the items for each epoch and member; items that do not fill a batch are left out.

    The permutation of the current epoch is cached, but steps can be requested in any order.
    """

    def __init__(self, seeds: Int[Tensor, "members"], items: int, batch: int) -> None:
        self.seeds = seeds
        self.items = items
        self.batch = min(batch, items)
        self.steps_per_epoch = items // self.batch
        self._epoch = -1
        self._order = torch.empty(0)

    def forget(self) -> None:
        """Clear the cached permutation, because the seeds have changed."""
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
    """Standard normal noise for each stream: steps x members x batch x columns."""
    number = torch.arange(steps.start, steps.stop, device=seeds.device)
    rows = torch.arange(batch, device=seeds.device)
    return {
        name: counter.normal(seeds, f"noise/{name}", number, rows, width).to(dtype) for name, width in columns.items()
    }
