"""How many items a similarity needs: CKA and Procrustes by the number of items (Bonheme, figure 7.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import random_seed, whole_number
from vaescope.codes import CodesLike
from vaescope.errors import ConfigurationError
from vaescope.notebook import NotebookResult
from vaescope.progress import track
from vaescope.similarity.cka import MIN_UNBIASED_ITEMS, linear_cka
from vaescope.similarity.measures import procrustes
from vaescope.similarity.tables import finite_pair
from vaescope.tables import Row

DEFAULT_SIZES = (50, 100, 200, 500, 1000, 2000, 5000)
MIN_DRAWS_FOR_PROGRESS = 50
MEASURES: dict[str, Callable[[Tensor, Tensor], float]] = {
    "cka": linear_cka,
    "unbiased_cka": partial(linear_cka, unbiased=True),
    "procrustes": procrustes,
}


@dataclass(frozen=True)
class SampleSizeStudy(NotebookResult):
    """The mean and the standard deviation of each measure over draws of items, for each number of items."""

    sizes: tuple[int, ...]
    repeats: int
    mean: dict[str, Float[np.ndarray, "sizes"]] = field(repr=False, compare=False)
    deviation: dict[str, Float[np.ndarray, "sizes"]] = field(repr=False, compare=False)

    def rows(self) -> list[Row]:
        """One row for each size and measure."""
        return [
            {
                "items": size,
                "measure": name,
                "mean": float(self.mean[name][place]),
                "deviation": float(self.deviation[name][place]),
            }
            for place, size in enumerate(self.sizes)
            for name in self.mean
        ]

    def summary(self) -> str:
        """Each measure at the smallest and at the largest number of items, in one line."""
        ends = ", ".join(f"{name} {values[0]:.3f} to {values[-1]:.3f}" for name, values in self.mean.items())
        return f"from {self.sizes[0]} to {self.sizes[-1]} items: {ends}"


def sample_size_study(
    a: CodesLike, b: CodesLike, *, sizes: Sequence[int] | None = None, repeats: int = 5, seed: int = 0
) -> SampleSizeStudy:
    """The similarity of two representations from few items and from many.

    If it still falls with the number of items, there are too few of them. Procrustes needs more items than CKA,
    and the unbiased CKA the fewest (section 7.2.2).

    Args:
        a, b: Representations of the same items, items x features.
        sizes: Numbers of items. Default: 50, 100, 200, 500, ... up to all items.
        repeats: Number of draws of items for each size.
        seed: Random seed.
    """
    x, y = finite_pair(a, b)
    chosen = (*(size for size in DEFAULT_SIZES if size < len(x)), len(x)) if sizes is None else tuple(sizes)
    for size in chosen:
        whole_number("sizes", size, MIN_UNBIASED_ITEMS, len(x))
    if not chosen:
        raise ConfigurationError("sizes must hold at least one number of items, got none.")
    count = whole_number("repeats", repeats, 1)
    random_seed(seed)
    found = np.empty((len(MEASURES), len(chosen), count))
    draws = [(place, repeat) for place in range(len(chosen)) for repeat in range(count)]
    long = len(draws) > MIN_DRAWS_FOR_PROGRESS
    for place, repeat in track(draws, "similarity by number of items", len(draws), long=long):
        order = np.random.default_rng((seed, repeat)).permutation(len(x))
        kept = torch.from_numpy(np.sort(order[: chosen[place]])).to(x.device)
        found[:, place, repeat] = [measure(x[kept], y[kept]) for measure in MEASURES.values()]
    means, deviations = (dict(zip(MEASURES, values, strict=True)) for values in (found.mean(2), found.std(2)))
    return SampleSizeStudy(chosen, count, means, deviations)
