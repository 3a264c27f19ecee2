"""All pairs through kernels: <XX', YY'> is a product of two long rows, for any number of features.

A pair of n items costs n^2 operations instead of the 2 n p q of X'Y, which is less from about p q = n / 2. Kernels are
never whole in memory: they are formed tile by tile for all representations at once, as the rows of one matrix that is
multiplied with itself. Tiles above the diagonal count twice; those below are not formed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.progress import track
from vaescope.similarity.groups import WidthGroup, round_to_tf32

ROWS_PER_PRODUCT = 64  # in blocks, only half of a symmetric matrix is computed
SUM_PARTS = 16  # a long sum in parts gives an accelerator enough to do at once


def kernel_products(
    left: Sequence[WidthGroup], right: Sequence[WidthGroup] | None, tile: int, long: bool
) -> tuple[Float[Tensor, "left right"], Float[Tensor, "left"], Float[Tensor, "right"]]:
    """<K_i, L_j> of every pair, <K_i, K_i> and <L_j, L_j>, in the order of the groups, in float64.

    `right` is None for the pairs of `left` with itself.
    """
    groups = [*left, *(right or ())]
    items, like = len(groups[0].members[0].table), groups[0].members[0].offset
    count, split = (sum(len(group) for group in side) for side in (groups, left))
    products = torch.zeros(split, count if right is None else count - split, dtype=torch.float64, device=like.device)
    own = torch.zeros(count, dtype=torch.float64, device=like.device)
    space = torch.empty(count * tile * tile, dtype=like.dtype, device=like.device)
    starts = range(0, items, tile)
    pairs = [(one, other) for one in starts for other in starts if other >= one]
    for one, other in track(pairs, "comparing kernels", len(pairs), long=long):
        weight = 1.0 if one == other else 2.0
        parts = (slice(one, min(one + tile, items)), slice(other, min(other + tile, items)))
        rows = _kernels(groups, *parts, space)
        if right is None:
            _add_symmetric(products, rows, weight)
        else:
            products.add_(_product(rows[:split], rows[split:]), alpha=weight)
            own.add_(torch.linalg.vector_norm(rows, dim=1).double().square_(), alpha=weight)
    if right is None:
        products = products.triu() + products.triu(1).T
        return products, products.diagonal(), products.diagonal()
    return products, own[:split], own[split:]


def block_rows(device: str) -> int:
    """Number of rows of a symmetric matrix that are computed at once."""
    return ROWS_PER_PRODUCT if device == "cpu" else 4 * ROWS_PER_PRODUCT


def _kernels(groups: Sequence[WidthGroup], one: slice, other: slice, space: Tensor) -> Float[Tensor, "members entries"]:
    """The tile of every kernel, one row for each."""
    height, width = one.stop - one.start, other.stop - other.start
    count = sum(len(group) for group in groups)
    tiles = space[: count * height * width].view(count, height, width)
    start = 0
    for group in groups:
        upper = group.rows(one)
        lower = upper if one == other else group.rows(other)
        torch.bmm(upper, lower.mT, out=tiles[start : start + len(group)])
        start += len(group)
    return (round_to_tf32(tiles) if groups[0].rounded else tiles).flatten(1)


def _add_symmetric(products: Tensor, rows: Tensor, weight: float) -> None:
    """Add the blocks on and right of the diagonal."""
    block = block_rows(rows.device.type)
    for start in range(0, len(rows), block):
        chosen = slice(start, start + block)
        products[chosen, start:].add_(_product(rows[chosen], rows[start:]), alpha=weight)


def _product(left: Float[Tensor, "left entries"], right: Float[Tensor, "right entries"]) -> Tensor:
    if left.device.type == "cpu" or left.shape[1] % SUM_PARTS:
        return left @ right.T
    return product_in_parts(left, right)


def product_in_parts(
    left: Float[Tensor, "left entries"], right: Float[Tensor, "right entries"]
) -> Float[Tensor, "left right"]:
    """LR' as many shorter products, which run in parallel and lose less to rounding; added up in float64."""
    first, second = (side.view(len(side), SUM_PARTS, -1).transpose(0, 1) for side in (left, right))
    return torch.bmm(first, second.mT).sum(0, dtype=torch.float64)
