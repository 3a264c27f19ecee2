"""Maximum likelihood estimates of the intrinsic dimension (Levina and Bickel, 2004; Bonheme, section 8.2.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import finite_number, whole_number
from vaescope.data import Dataset
from vaescope.errors import ConfigurationError, DataError, unknown_name
from vaescope.numerics import counter
from vaescope.numerics.neighbours import Neighbours, distinct, nearest_distances

MACKAY_GHAHRAMANI, LEVINA_BICKEL = "mackay-ghahramani", "levina-bickel"
# What is subtracted from k in the divisor: in the thesis' code, and in its text (eq. 8.2).
CORRECTIONS = {MACKAY_GHAHRAMANI: 2, LEVINA_BICKEL: 1}
KS = (3, 5, 10, 20)
TOLERANCE = 0.1
SHARE, SUBSAMPLES, CONFIDENCE = 0.8, 200, 0.95
CHUNK_NUMBERS = 1 << 22
LARGEST = 1e150  # squares of larger numbers overflow
NARROW = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.float16, torch.bfloat16, torch.float32)
EQUALLY_FAR = 1e-9  # mean log ratio of distances below which they differ by rounding alone


@dataclass(frozen=True)
class MLE:
    """The estimate with `k` neighbours over `items` distinct items, and where it may lie: `interval`."""

    dimension: float
    interval: tuple[float, float]
    k: int
    averaging: str
    correction: int
    items: int
    duplicates: int

    def rows(self) -> list[dict[str, Any]]:
        """One row."""
        row = {"k": self.k, "dimension": self.dimension, "low": self.interval[0], "high": self.interval[1]}
        return [row | {name: getattr(self, name) for name in ("averaging", "correction", "items", "duplicates")}]

    def summary(self) -> str:
        """The estimate and what it rests on."""
        low, high = self.interval
        return (
            f"intrinsic dimension {self.dimension:.2f}, between {low:.2f} and {high:.2f} (MLE, {self.averaging}, "
            f"k = {self.k}, divisor k - {self.correction}, {self.items} items, {self.duplicates} duplicates removed)"
        )


@dataclass(frozen=True)
class MLESweep:
    """An estimate for each k, by increasing k, and the successive ks whose estimates agree within `tolerance`."""

    estimates: tuple[MLE, ...]
    stable: tuple[int, ...]
    tolerance: float

    @property
    def best(self) -> MLE | None:
        """The estimate with the largest of the stable ks, as it varies least; None if no two ks agree."""
        return next((one for one in self.estimates if self.stable and one.k == self.stable[-1]), None)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each k."""
        return [{**one.rows()[0], "stable": one.k in self.stable} for one in self.estimates]

    def summary(self) -> str:
        """The most stable estimate, or that there is none."""
        ks = ", ".join(str(one.k) for one in self.estimates)
        if self.best is None:
            return f"no stable intrinsic dimension: no two successive k of {ks} agree within {self.tolerance:.0%}"
        return f"{self.best.summary()}, stable for k = {', '.join(str(k) for k in self.stable)} of {ks}"


def mle(
    x: Any,
    k: int = 20,
    averaging: str = MACKAY_GHAHRAMANI,
    *,
    correction: int | None = None,
    share: float = SHARE,
    subsamples: int = SUBSAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> MLE:
    """The dimension under which the distances to the `k` nearest neighbours are likeliest.

    "levina-bickel" averages the estimates of the items (eq. 8.2, 8.3); "mackay-ghahramani" (2005) averages their
    inverses. The divisor is k - `correction`: by default k - 1 for the first, as in the thesis' text, and k - 2 for
    the second, as in its code. For points spread evenly it is the other way round that has no bias; the defaults are
    too high and too low by the factor (k - 1) / (k - 2), which is 2 for k = 3 and 1.06 for k = 20.

    `x` is an array or tensor of items x anything, a `Dataset`, or what `neighbours` returned, so that one search
    serves several estimates. Duplicates are removed first.

    The interval comes from estimates over random subsets, `share` of the items at which the dimension is measured,
    their neighbours among all; deviations are scaled by sqrt(share / (1 - share)) to those of all items. It tells
    how the estimate varies with the items measured, not how far k or curvature biases it.
    """
    return _estimates(x, (k,), averaging, correction, (share, subsamples, confidence, seed))[0]


def mle_sweep(
    x: Any,
    ks: Sequence[int] = KS,
    averaging: str = MACKAY_GHAHRAMANI,
    *,
    correction: int | None = None,
    tolerance: float = TOLERANCE,
    share: float = SHARE,
    subsamples: int = SUBSAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> MLESweep:
    """The estimate for each of `ks`, from one search, and those that are "stable for the largest number of k values".

    So the thesis chooses (section 8.2.4, after Karbauskaite et al., 2011; table D.4 for `ks`), by eye. Here the stable
    ks are the longest row of successive ones whose estimates differ by at most `tolerance` of the smallest, and of
    equally long rows the one that differs least.
    """
    tolerance = finite_number("tolerance", tolerance, at_least=0)
    numbers = sorted({whole_number("each of ks", k, 2) for k in ks})
    if len(numbers) < 2:
        raise ConfigurationError(f"ks must hold at least two different numbers, got {tuple(ks)!r}.")
    estimates = _estimates(x, numbers, averaging, correction, (share, subsamples, confidence, seed))
    return MLESweep(estimates, _stable(estimates, tolerance), tolerance)


def neighbours(x: Any, k: int, device: torch.device | str | None = None) -> Neighbours:
    """Distances of each distinct item to its `k` nearest others, on `device` or where `x` lies.

    What this function returned comes back as it is if it holds at least `k` neighbours of each item.
    """
    k = whole_number("k", k, 1)
    if isinstance(x, Neighbours):
        if x.k < k:
            raise DataError(f"x must hold at least {k} neighbours of each item, got {x.k}. Search with a larger k.")
        return x
    points = _points(x, device)
    kept = distinct(points)
    duplicates = len(points) - len(kept)
    if len(kept) <= k:
        raise DataError(
            f"x must hold at least {k + 1} distinct items for {k} neighbours, got {len(kept)} and {duplicates} "
            "duplicates. Lower k or pass more items."
        )
    return Neighbours(nearest_distances(kept, k), duplicates)


def proper_share(name: str, value: Any) -> float:
    """A number strictly between 0 and 1, or an error that names it."""
    number = finite_number(name, value, above=0)
    if number >= 1:
        raise ConfigurationError(f"{name} must lie strictly between 0 and 1, got {value!r}.")
    return number


def _points(x: Any, device: torch.device | str | None) -> Float[Tensor, "items dimensions"]:
    """The items as rows, in float32 where that loses nothing, else in float64; all finite."""
    if isinstance(x, Dataset):
        size = max(1, CHUNK_NUMBERS // x.dimensions)
        tensor = torch.cat([chunk.flatten(1) for chunk in x.chunks(size, "cpu" if device is None else device)])
    elif isinstance(x, Tensor) and not x.is_complex():
        tensor = x.detach()
    elif isinstance(x, np.ndarray) and x.dtype.kind in "biuf":
        kind = np.float32 if np.can_cast(x.dtype, np.float32) else np.float64
        tensor = torch.from_numpy(np.array(x, dtype=kind, order="C"))
    else:
        got = f"type {x.dtype}" if isinstance(x, np.ndarray | Tensor) else type(x).__name__
        raise DataError(f"x must be a numpy array, a torch tensor or a Dataset of real numbers, got {got}.")
    if tensor.ndim < 2 or tensor.numel() == 0:
        raise DataError(f"x must be items x dimensions or images, none empty, got the shape {tuple(tensor.shape)}.")
    tensor = tensor.to(device=device, dtype=torch.float32 if tensor.dtype in NARROW else torch.float64)
    rows = tensor.reshape(len(tensor), -1)
    wrong = ~(rows.abs() <= LARGEST).all(1)
    if bool(wrong.any()):
        item = int(wrong.nonzero()[0])
        raise DataError(f"x must hold finite numbers below {LARGEST:g}, but item {item} does not; leave it out.")
    return rows


def _estimates(
    x: Any, ks: Sequence[int], averaging: str, correction: int | None, subsets: tuple[float, int, float, int]
) -> tuple[MLE, ...]:
    if averaging not in CORRECTIONS:
        raise unknown_name("averaging", averaging, CORRECTIONS)
    less = CORRECTIONS[averaging] if correction is None else whole_number("correction", correction, 1, 2)
    ks = [whole_number("k", k, less + 1) for k in ks]
    share, subsamples, confidence, seed = subsets
    share, confidence = proper_share("share", share), proper_share("confidence", confidence)
    subsamples, seed = whole_number("subsamples", subsamples, 1), whole_number("seed", seed, 0)
    near = neighbours(x, max(ks))
    values = torch.stack([_item_values(near.distances, k, averaging, less) for k in ks]).cpu()
    dimensions = _averaged(values, averaging)
    found = _subset_dimensions(values, averaging, share, subsamples, seed)
    tails = torch.tensor([(1 - confidence) / 2, (1 + confidence) / 2], dtype=torch.float64)
    # The nearest, not a blend: of infinite estimates of subsets a blend would be no number.
    bounds = torch.quantile(found, tails, dim=0, interpolation="nearest")
    return tuple(
        MLE(dimension, (low, high), k, averaging, less, near.items, near.duplicates)
        for k, dimension, low, high in zip(ks, dimensions.tolist(), *bounds.tolist(), strict=True)
    )


def _item_values(
    distances: Float[Tensor, "items neighbours"], k: int, averaging: str, correction: int
) -> Float[Tensor, "items"]:
    """What is averaged: the estimate of each item (eq. 8.2), or its inverse."""
    logarithms = distances[:, :k].log()
    inverse = (logarithms[:, -1:] - logarithms[:, :-1]).sum(1) / (k - correction)
    flat = inverse < EQUALLY_FAR
    # An infinite estimate rules a mean of estimates; its inverse, 0, is one among others.
    if bool(flat.all() if averaging == MACKAY_GHAHRAMANI else flat.any()):
        raise DataError(
            f"x must have neighbours at different distances, but the {k} nearest of {int(flat.sum())} of {len(flat)} "
            f"items are all equally far, so that their dimension is infinite. Raise k or average {MACKAY_GHAHRAMANI}."
        )
    return inverse if averaging == MACKAY_GHAHRAMANI else 1 / inverse


def _averaged(values: Float[Tensor, "ks items"], averaging: str) -> Float[Tensor, "ks"]:
    return 1 / values.mean(1) if averaging == MACKAY_GHAHRAMANI else values.mean(1)


def _subset_dimensions(
    values: Float[Tensor, "ks items"], averaging: str, share: float, subsamples: int, seed: int
) -> Float[Tensor, "subsamples ks"]:
    """Estimates over random subsets, their deviations (of logarithms, so none falls below 0) scaled to all items.

    A mean over m of n items, drawn without return, varies by (1 - m / n) / m; over all as a sample by 1 / n.
    """
    items = values.shape[1]
    size = min(max(round(share * items), 1), items - 1)
    found = []
    for number in range(subsamples):
        order = counter.permutation(torch.tensor(seed), "subsample", torch.tensor(number), items)
        found.append(_averaged(values[:, order[:size]], averaging))
    dimensions = _averaged(values, averaging)
    return dimensions * (torch.stack(found) / dimensions) ** math.sqrt(size / (items - size))


def _stable(estimates: Sequence[MLE], tolerance: float) -> tuple[int, ...]:
    runs = []
    for start in range(len(estimates)):
        for stop in range(start + 2, len(estimates) + 1):
            found = [one.dimension for one in estimates[start:stop]]
            spread = max(found) / min(found) - 1
            if spread <= tolerance:
                runs.append((start - stop, spread, tuple(one.k for one in estimates[start:stop])))
    return min(runs, default=(0, 0.0, ()))[-1]
