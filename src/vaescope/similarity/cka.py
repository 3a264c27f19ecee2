"""Linear centred kernel alignment of two representations (Kornblith et al., 2019; Bonheme, eq. 2.2)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.errors import DataError
from vaescope.numerics.moments import Moments
from vaescope.similarity.tables import centred_pair, finite_pair

LEAST_UNBIASED = 4


def linear_cka(a: Any, b: Any, *, unbiased: bool = False) -> float:
    """||X'Y||^2 / (||X'X|| ||Y'Y||) of centred X and Y, items x features: 1 up to rotation and scaling, 0 if unrelated.

    Computed in float64, from features where they are fewer than items, else from the items x items kernels, whichever
    is less work. The biased one is that of the studies, which stays above 0 for unrelated representations of few items
    or many features. The unbiased one has HSIC_1 of Song et al. (2012, eq. 5) in place of HSIC; it is about 0 there,
    and may be negative.
    """
    x, y = centred_pair(a, b)
    if not unbiased:
        cross, left, right = _inner_products(x, y)
        return min(cross / math.sqrt(left * right), 1.0)
    _enough(len(x), "unbiased CKA")
    cross, left, right = _unbiased(x, y)
    return _alignment(cross, left, right)


def hsic(a: Any, b: Any, *, unbiased: bool = False) -> float:
    """The Hilbert-Schmidt independence criterion with linear kernels.

    The biased one is tr(K H L H) / (items - 1)^2 (Gretton et al., 2005), the unbiased one HSIC_1 of Song et al. (2012).
    """
    x, y = finite_pair(a, b)
    x, y = x - x.mean(0), y - y.mean(0)
    if unbiased:
        _enough(len(x), "unbiased HSIC")
        return _unbiased(x, y)[0]
    return _inner_products(x, y)[0] / (len(x) - 1) ** 2


@dataclass(frozen=True)
class StreamedCKA:
    """Linear CKA of items that come in chunks, exactly: covariances merged over the chunks.

    Memory holds (features of both)^2 numbers, whatever the number of items. A value: `add` returns the next one.
    """

    features: int | None = None
    moments: Moments | None = None

    @classmethod
    def over(cls, chunks: Iterable[tuple[Any, Any]]) -> StreamedCKA:
        """All chunks, each a pair of representations of the same items."""
        state = cls()
        for a, b in chunks:
            state = state.add(a, b)
        return state

    def add(self, a: Any, b: Any) -> StreamedCKA:
        """With one more chunk."""
        x, y = finite_pair(a, b)
        part = Moments.of(torch.cat([x, y], 1))
        if self.moments is None:
            return StreamedCKA(x.shape[1], part)
        before, now = (self.features, len(self.moments.mean)), (x.shape[1], len(part.mean))
        if before != now:
            raise DataError(
                f"chunks must keep their widths, got {now[0]} features of a and {now[1] - now[0]} of b after "
                f"{before[0]} and {before[1] - x.shape[1]}."
            )
        return StreamedCKA(self.features, self.moments.merge(part))

    @property
    def value(self) -> float:
        """The biased CKA of all items so far."""
        if self.moments is None or self.features is None:
            raise DataError("CKA needs items; add a chunk first.")
        scatter, width = self.moments.scatter, self.features
        left, right = scatter[:width, :width], scatter[width:, width:]
        # What equal items leave is rounding of their own size, which must not pass for variation.
        still = (torch.finfo(torch.float64).eps * self.moments.count * self.moments.mean.abs()).square()
        for name, part, noise in (("a", left, still[:width]), ("b", right, still[width:])):
            if bool((part.diagonal() <= noise).all()):
                raise DataError(f"{name} must vary over the items, but is the same for all. Leave it out.")
        cross, first, second = (float(part.square().sum().sqrt()) for part in (scatter[:width, width:], left, right))
        return min(cross / first * cross / second, 1.0)


@dataclass(frozen=True)
class MinibatchCKA:
    """CKA from minibatches: the mean of unbiased HSIC over them (Nguyen et al., 2021, eq. 2 to 4).

    It needs no more memory than a batch and, other than the biased CKA, does not depend on the size of the batches but
    through noise. A value: `add` returns the next one, `merge` joins two.
    """

    batches: int = 0
    cross: float = 0.0
    left: float = 0.0
    right: float = 0.0

    @classmethod
    def over(cls, batches: Iterable[tuple[Any, Any]]) -> MinibatchCKA:
        """All batches, each a pair of representations of the same items."""
        state = cls()
        for a, b in batches:
            state = state.add(a, b)
        return state

    def add(self, a: Any, b: Any) -> MinibatchCKA:
        """With one more batch, of at least 4 items. Scales are kept, since batches are summed."""
        x, y = finite_pair(a, b)
        _enough(len(x), "a batch of CKA")
        part = _unbiased(x - x.mean(0), y - y.mean(0))
        return self.merge(MinibatchCKA(1, *part))

    def merge(self, other: MinibatchCKA) -> MinibatchCKA:
        """The batches of both."""
        sums = (getattr(self, name) + getattr(other, name) for name in ("cross", "left", "right"))
        return MinibatchCKA(self.batches + other.batches, *sums)

    @property
    def value(self) -> float:
        """The CKA of all batches so far."""
        if self.batches == 0:
            raise DataError("CKA needs items; add a batch first.")
        return _alignment(self.cross, self.left, self.right)


def _enough(items: int, what: str) -> None:
    if items < LEAST_UNBIASED:
        raise DataError(f"{what} needs at least {LEAST_UNBIASED} items, got {items}.")


def _inner_products(x: Float[Tensor, "items features"], y: Float[Tensor, "items others"]) -> tuple[float, float, float]:
    """<K, L>, <K, K>, <L, L> of the kernels K = XX', L = YY'; from features, <K, L> = ||X'Y||^2."""
    items, (wide, other) = len(x), (x.shape[1], y.shape[1])
    if wide * wide + wide * other + other * other <= items * (wide + other):
        sides = ((x, y), (x, x), (y, y))
        cross, left, right = (float((first.T @ second).square_().sum()) for first, second in sides)
    else:
        first, second = x @ x.T, y @ y.T
        cross, left, right = (float(torch.vdot(k.flatten(), m.flatten())) for k, m in _thrice(first, second))
    return cross, left, right


def _thrice(first: Tensor, second: Tensor) -> tuple[tuple[Tensor, Tensor], ...]:
    return (first, second), (first, first), (second, second)


def _unbiased(x: Float[Tensor, "items features"], y: Float[Tensor, "items others"]) -> tuple[float, float, float]:
    """HSIC_1 of (X, Y), (X, X) and (Y, Y).

    Of centred rows the kernels' rows sum to 0. Hence with d and e the diagonals of K and L, which HSIC_1 leaves out,
    tr(K~ L~) = <K, L> - d'e, 1' K~ L~ 1 = d'e, and 1' K~ 1 = -sum(d).
    """
    items = len(x)
    norms = x.square().sum(1), y.square().sum(1)
    found = []
    for product, (d, e) in zip(_inner_products(x, y), _thrice(*norms), strict=True):
        traces = float(d.sum()) * float(e.sum()) / ((items - 1) * (items - 2))
        found.append((product - items / (items - 2) * float(d @ e) + traces) / (items * (items - 3)))
    return found[0], found[1], found[2]


def _alignment(cross: float, left: float, right: float) -> float:
    for name, own in (("a", left), ("b", right)):
        if own <= 0:
            raise DataError(
                f"unbiased CKA needs a positive HSIC of {name} with itself, got {own:g}: {name} does not vary enough "
                "over so few items. Take more items, or the biased CKA."
            )
    return cross / math.sqrt(left * right)
