"""Where an average over items may lie, from averages over random subsets of the items."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import finite_number, whole_number
from vaescope.errors import ConfigurationError
from vaescope.numerics import counter

DRAWN = 1 << 15  # random numbers of one chunk of subsets: so few that they stay in the cache of one core


def proper_share(name: str, value: Any) -> float:
    """A number strictly between 0 and 1, or an error that names it."""
    number = finite_number(name, value, above=0)
    if number >= 1:
        raise ConfigurationError(f"{name} must lie strictly between 0 and 1, got {value!r}.")
    return number


@dataclass(frozen=True)
class Subsets:
    """`count` random subsets, `share` of the items each, whose averages tell an interval that holds `confidence`."""

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
        """The lower and the upper end for each row; `averaged` makes the estimates, above 0, of the rows' means.

        Deviations, of logarithms, so that none falls below 0, are scaled from subsets to all items: a mean over m of
        n items, drawn without return, varies by (1 - m / n) / m; over all as a sample by 1 / n.
        """
        items = values.shape[1]
        size = min(max(round(self.share * items), 1), items - 1)
        seed = torch.tensor(self.seed, device=values.device)
        found = []
        for numbers in torch.arange(self.count, device=values.device).split(max(1, DRAWN // items)):
            order = counter.permutation(seed, "subsample", numbers, items)[:, :size]
            found.append(averaged(values[:, order].mean(-1).T))
        whole = averaged(values.mean(1))
        scaled = whole * (torch.cat(found) / whole) ** math.sqrt(size / (items - size))
        tails = torch.tensor([(1 - self.confidence) / 2, (1 + self.confidence) / 2], dtype=torch.float64)
        # The nearest, not a blend: of infinite estimates of subsets a blend would be no number.
        return torch.quantile(scaled, tails.to(values.device), dim=0, interpolation="nearest")
