"""Linear centred kernel alignment of two representations (Kornblith et al., 2019; Bonheme, eq. 2.2)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import finite_number
from vaescope.codes import CodesLike
from vaescope.errors import DataError
from vaescope.numerics.moments import RunningMoments
from vaescope.similarity.tables import CentredTable, centred_pair, centred_tables, finite_pair

MIN_UNBIASED_ITEMS = 4
CHUNK_NUMBERS = 2**21  # that are centred at a time


def linear_cka(a: CodesLike, b: CodesLike, *, unbiased: bool = False) -> float:
    """||X'Y||^2 / (||X'X|| ||Y'Y||) of centred X and Y: 1 if equal up to rotation and scaling, 0 if unrelated.

    Computed in float64, from features or from the items x items kernels, whichever is less work; memory holds their
    products and no copy of the representations.

    Args:
        a, b: Representations of the same items, items x features.
        unbiased: Use HSIC_1 of Song et al. (2012, eq. 5) in place of HSIC. The biased CKA, which the studies use, stays
            above 0 for unrelated representations of few items or many features; the unbiased one is about 0 there, and
            may be negative.
    """
    x, y = centred_tables(a, b)
    if not unbiased:
        cross, left, right = _inner_products(x, y)
        return min(cross / math.sqrt(left * right), 1.0)
    _require_items(len(x.table), "unbiased CKA")
    return _alignment(*_unbiased_hsic(x, y))


def rbf_cka(a: CodesLike, b: CodesLike, *, bandwidth: float = 1.0) -> float:
    """CKA with Gaussian kernels, <K, L> / (||K|| ||L||) of centred K and L: 1 if equal up to rotation and scaling.

    K_ij = exp(-||x_i - x_j||^2 / (2 s^2)), where s is `bandwidth` times the median distance (Kornblith et al., 2019).
    Small bandwidths compare neighbourhoods; large ones give the linear CKA. Memory holds a few items x items matrices.

    Args:
        a, b: Representations of the same items, items x features.
        bandwidth: The standard deviation of the kernel, as a share of the median distance.
    """
    finite_number("bandwidth", bandwidth, above=0)
    first, second = (_gaussian_kernel(x, name, bandwidth) for name, x in zip("ab", centred_pair(a, b), strict=True))
    cross, left, right = _kernel_products(first, second)
    return min(cross / math.sqrt(left * right), 1.0)


def hsic(a: CodesLike, b: CodesLike, *, unbiased: bool = False) -> float:
    """The Hilbert-Schmidt independence criterion with linear kernels.

    The biased estimate is tr(K H L H) / (items - 1)^2 (Gretton et al., 2005), the unbiased one HSIC_1 of Song et al.
    (2012).
    """
    x, y = _unscaled(a, b)
    items = len(x.table)
    if unbiased:
        _require_items(items, "unbiased HSIC")
        return _unbiased_hsic(x, y)[0]
    return _inner_products(x, y)[0] / (items - 1) ** 2


@dataclass(frozen=True)
class StreamedCKA:
    """Exact linear CKA of items that arrive in chunks, from covariances merged over the chunks.

    Memory holds (features of both)^2 numbers, for any number of items. `add` returns a new state.
    """

    features: int | None = None
    moments: RunningMoments | None = None

    @classmethod
    def over(cls, chunks: Iterable[tuple[CodesLike, CodesLike]]) -> StreamedCKA:
        """The state after all chunks, each a pair of representations of the same items."""
        return reduce(lambda state, pair: state.add(*pair), chunks, cls())

    def add(self, a: CodesLike, b: CodesLike) -> StreamedCKA:
        """The state after one more chunk."""
        x, y = finite_pair(a, b)
        part = RunningMoments.of(torch.cat([x, y], 1))
        if self.moments is None:
            return StreamedCKA(x.shape[1], part)
        before, now = (self.features, len(self.moments.mean)), (x.shape[1], len(part.mean))
        if before != now:
            raise DataError(
                f"chunks must have the same features, got {now[0]} of a and {now[1] - now[0]} of b after {before[0]} "
                f"and {before[1] - x.shape[1]}."
            )
        return StreamedCKA(self.features, self.moments.merge(part))

    @property
    def value(self) -> float:
        """The biased CKA of all items so far."""
        if self.moments is None or self.features is None:
            raise DataError("CKA needs items; add a chunk first.")
        scatter, width = self.moments.scatter, self.features
        left, right = scatter[:width, :width], scatter[width:, width:]
        # Equal items leave rounding errors in proportion to their size, which must not count as variation.
        rounding = (torch.finfo(torch.float64).eps * self.moments.count * self.moments.mean.abs()).square()
        for name, part, noise in (("a", left, rounding[:width]), ("b", right, rounding[width:])):
            if bool((part.diagonal() <= noise).all()):
                raise DataError(f"{name} must vary over the items, but all items are equal. Leave it out.")
        cross, first, second = (float(part.square().sum().sqrt()) for part in (scatter[:width, width:], left, right))
        return min(cross / first * cross / second, 1.0)


@dataclass(frozen=True)
class MinibatchCKA:
    """CKA from minibatches: the mean of unbiased HSIC over them (Nguyen et al., 2021, eq. 2 to 4).

    It needs no more memory than one batch and, unlike the biased CKA, depends on the batch size only through noise.
    `add` and `merge` return a new state.
    """

    batches: int = 0
    cross: float = 0.0
    left: float = 0.0
    right: float = 0.0

    @classmethod
    def over(cls, batches: Iterable[tuple[CodesLike, CodesLike]]) -> MinibatchCKA:
        """The state after all batches, each a pair of representations of the same items."""
        return reduce(lambda state, pair: state.add(*pair), batches, cls())

    def add(self, a: CodesLike, b: CodesLike) -> MinibatchCKA:
        """The state after one more batch, of at least 4 items, on the same scale as the others."""
        x, y = _unscaled(a, b)
        _require_items(len(x.table), "a batch of CKA")
        return self.merge(MinibatchCKA(1, *_unbiased_hsic(x, y)))

    def merge(self, other: MinibatchCKA) -> MinibatchCKA:
        """The batches of both."""
        return MinibatchCKA(
            self.batches + other.batches, self.cross + other.cross, self.left + other.left, self.right + other.right
        )

    @property
    def value(self) -> float:
        """The CKA of all batches so far."""
        if self.batches == 0:
            raise DataError("CKA needs items; add a batch first.")
        return _alignment(self.cross, self.left, self.right)


def _require_items(items: int, what: str) -> None:
    if items < MIN_UNBIASED_ITEMS:
        raise DataError(f"{what} needs at least {MIN_UNBIASED_ITEMS} items, got {items}.")


def _unscaled(a: CodesLike, b: CodesLike) -> tuple[CentredTable, CentredTable]:
    """Two representations of the same items, checked, to be centred on their own scale."""
    first, second = (CentredTable(table, (table - table[0]).mean(0), 1.0) for table in finite_pair(a, b))
    return first, second


def _inner_products(x: CentredTable, y: CentredTable) -> tuple[float, float, float]:
    """<K, L>, <K, K>, <L, L> of the kernels K = XX', L = YY'; from features, <K, L> = ||X'Y||^2."""
    items, wide, other = len(x.table), x.table.shape[1], y.table.shape[1]
    if wide * wide + wide * other + other * other > items * (wide + other):
        return _kernel_products(_kernel(x), _kernel(y))
    sizes = (wide, other), (wide, wide), (other, other)
    cross, left, right = (x.offset.new_zeros(size) for size in sizes)
    for part in _chunks(items, wide + other):
        first, second = x.rows(part), y.rows(part)
        cross.addmm_(first.T, second)
        left.add_(_product(first))
        right.add_(_product(second))
    squares = [float(product.square_().sum()) for product in (cross, left, right)]
    return squares[0], squares[1], squares[2]


def _kernel(x: CentredTable) -> Float[Tensor, "items items"]:
    """XX', summed over features."""
    parts = (_product(x.rows(columns=part).T) for part in _chunks(x.table.shape[1], len(x.table)))
    return reduce(Tensor.add_, parts)


def _chunks(count: int, width: int) -> list[slice]:
    """All of `count` rows or columns in chunks of about `CHUNK_NUMBERS` numbers."""
    size = max(1, CHUNK_NUMBERS // width)
    return [slice(start, start + size) for start in range(0, count, size)]


def _product(x: Float[Tensor, "rows columns"]) -> Float[Tensor, "columns columns"]:
    """X'X, of which numpy computes only half, unlike torch."""
    if x.device.type != "cpu":
        return x.T @ x
    array = x.numpy()
    return torch.from_numpy(array.T @ array)


def _kernel_products(
    first: Float[Tensor, "items items"], second: Float[Tensor, "items items"]
) -> tuple[float, float, float]:
    """<K, L>, <K, K> and <L, L>."""
    cross, left, right = (float(torch.vdot(a.flatten(), b.flatten())) for a, b in _three_pairs(first, second))
    return cross, left, right


def _gaussian_kernel(x: Float[Tensor, "items features"], name: str, bandwidth: float) -> Float[Tensor, "items items"]:
    """The kernel of all pairs, centred; the median is over all entries of the matrix, as in the authors' code."""
    squares = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist").square()
    median = float(np.median(squares.cpu().numpy()))
    if median == 0:
        raise DataError(f"{name} must have items that differ, but half of its distances are 0. Drop the duplicates.")
    kernel = torch.exp(-squares / (2 * bandwidth**2 * median))
    rows = kernel.mean(0)
    return kernel - rows - rows[:, None] + rows.mean()


def _three_pairs(first: Tensor, second: Tensor) -> tuple[tuple[Tensor, Tensor], ...]:
    return (first, second), (first, first), (second, second)


def _unbiased_hsic(x: CentredTable, y: CentredTable) -> tuple[float, float, float]:
    """HSIC_1 of (X, Y), (X, X) and (Y, Y).

    The rows of kernels of centred X and Y sum to 0. With d and e the diagonals of K and L, which HSIC_1 leaves out,
    therefore tr(K~ L~) = <K, L> - d'e, 1' K~ L~ 1 = d'e, and 1' K~ 1 = -sum(d).
    """
    items = len(x.table)
    norms = [
        torch.cat([side.rows(part).square_().sum(1) for part in _chunks(items, side.table.shape[1])]) for side in (x, y)
    ]
    found = []
    for product, (d, e) in zip(_inner_products(x, y), _three_pairs(*norms), strict=True):
        traces = float(d.sum()) * float(e.sum()) / ((items - 1) * (items - 2))
        found.append((product - items / (items - 2) * float(d @ e) + traces) / (items * (items - 3)))
    return found[0], found[1], found[2]


def _alignment(cross: float, left: float, right: float) -> float:
    for name, value in (("a", left), ("b", right)):
        if value <= 0:
            raise DataError(
                f"unbiased CKA needs a positive HSIC of {name} with itself, got {value:g}: {name} varies too little. "
                "Use more items, or the biased CKA."
            )
    return cross / math.sqrt(left * right)
