"""Confidence intervals of averages over items, from averages over random subsets of the items."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import proper_share, whole_number
from vaescope.numerics import counter

RANDOM_NUMBERS_PER_CHUNK = 1 << 15  # few enough to stay in the cache of one core


@dataclass(frozen=True)
class Subsets:
    """Subsampling settings.

    Attributes:
        share: The share of the items in each subset.
        count: The number of subsets.
        confidence: The confidence level of the interval.
        seed: Random seed of the subsets.
    """

    share: float = 0.8
    count: int = 200
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        proper_share("share", self.share)
        proper_share("confidence", self.confidence)
        whole_number("subsamples", self.count, 1)
        whole_number("seed", self.seed, 0)

    def bounds(
        self, values: Float[Tensor, "rows items"], averaged: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "bounds rows"]:
        """The lower and the upper end of the interval of each row.

        Deviations of subsets are scaled to those of all items: the mean of m of n items, drawn without replacement,
        has variance proportional to (1 - m / n) / m, that of a sample of n items to 1 / n. Logarithms are scaled, so
        that no bound falls below 0.

        Args:
            values: What is averaged over the items.
            averaged: Turns means of the rows into estimates, which are positive.
        """
        items = values.shape[1]
        size = min(max(round(self.share * items), 1), items - 1)
        seed = torch.tensor(self.seed, device=values.device)
        found = []
        chunk = max(1, RANDOM_NUMBERS_PER_CHUNK // items)
        for numbers in torch.split(torch.arange(self.count, device=values.device), chunk):
            order = counter.permutation(seed, "subsample", numbers, items)[:, :size]
            found.append(averaged(values[:, order].mean(-1).T))
        whole = averaged(values.mean(1))
        scaled = whole * (torch.cat(found) / whole) ** math.sqrt(size / (items - size))
        tails = torch.tensor([(1 - self.confidence) / 2, (1 + self.confidence) / 2], dtype=torch.float64)
        # The nearest, not an interpolation: between infinite estimates an interpolation would be NaN.
        return torch.quantile(scaled, tails.to(values.device), dim=0, interpolation="nearest")
