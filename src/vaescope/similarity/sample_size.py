"""How many items a similarity needs: CKA and Procrustes against the number of items (Bonheme, figure 7.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from vaescope.checks import whole_number
from vaescope.errors import ConfigurationError
from vaescope.notebook import NotebookResult
from vaescope.progress import track
from vaescope.similarity.cka import LEAST_UNBIASED, linear_cka
from vaescope.similarity.procrustes import procrustes
from vaescope.similarity.tables import finite_pair

SIZES = (50, 100, 200, 500, 1000, 2000, 5000)
LONG = 50  # draws
MEASURES: dict[str, Callable[[Any, Any], float]] = {
    "cka": linear_cka,
    "unbiased_cka": partial(linear_cka, unbiased=True),
    "procrustes": procrustes,
}


@dataclass(frozen=True)
class SampleSizeStudy(NotebookResult):
    """The mean and the standard deviation of each measure over draws of so many items."""

    sizes: tuple[int, ...]
    repeats: int
    mean: dict[str, Float[np.ndarray, "sizes"]] = field(repr=False, compare=False)
    deviation: dict[str, Float[np.ndarray, "sizes"]] = field(repr=False, compare=False)

    def rows(self) -> list[dict[str, Any]]:
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
        """Each measure of the fewest and of the most items, in one line."""
        ends = ", ".join(f"{name} {values[0]:.3f} to {values[-1]:.3f}" for name, values in self.mean.items())
        return f"from {self.sizes[0]} to {self.sizes[-1]} items: {ends}"


def sample_size_study(
    a: Any, b: Any, *, sizes: Sequence[int] | None = None, repeats: int = 5, seed: int = 0
) -> SampleSizeStudy:
    """The similarity of two representations from few items and from many.

    Where it still falls with the number of items, it owes to their number; Procrustes needs more items than CKA, and
    the unbiased CKA fewest (section 7.2.2). Without `sizes`, the usual ones up to the number of items.
    """
    x, y = finite_pair(a, b)
    chosen = (*(size for size in SIZES if size < len(x)), len(x)) if sizes is None else tuple(sizes)
    for size in chosen:
        whole_number("sizes", size, LEAST_UNBIASED, len(x))
    if not chosen:
        raise ConfigurationError("sizes must name at least one number of items, got none.")
    count = whole_number("repeats", repeats, 1)
    found = np.empty((len(MEASURES), len(chosen), count))
    draws = [(place, repeat) for place in range(len(chosen)) for repeat in range(count)]
    for place, repeat in track(draws, "similarity by number of items", len(draws), long=len(draws) > LONG):
        order = np.random.default_rng((seed, repeat)).permutation(len(x))
        kept = torch.from_numpy(np.sort(order[: chosen[place]])).to(x.device)
        found[:, place, repeat] = [measure(x[kept], y[kept]) for measure in MEASURES.values()]
    means, deviations = (dict(zip(MEASURES, values, strict=True)) for values in (found.mean(2), found.std(2)))
    return SampleSizeStudy(chosen, count, means, deviations)
