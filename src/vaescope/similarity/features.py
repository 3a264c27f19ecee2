"""All pairs through features: products X'Y of blocks of representations, reduced to one number for each pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.progress import track
from vaescope.similarity.groups import WidthGroup, blocks

MAX_FLOAT32_ITEMS = {"cpu": 512, "cuda": 4096}  # summed in float32; float64 sums add up longer ones
Block = tuple[WidthGroup, slice, slice]  # a group, some of its members, and their places in the order of the groups
Reduction = Callable[[Float[Tensor, "left width right other"]], Float[Tensor, "left right"]]


def squares(products: Float[Tensor, "left width right other"]) -> Float[Tensor, "left right"]:
    """||X'Y||_F^2 of every pair; overwrites the products."""
    return products.square_().sum(3).sum(1, dtype=torch.float64)


def nuclear_norms(products: Float[Tensor, "left width right other"]) -> Float[Tensor, "left right"]:
    """||X'Y||_* of every pair."""
    norms: Tensor = torch.linalg.svdvals(products.transpose(1, 2)).sum(-1, dtype=torch.float64)
    return norms


def feature_products(
    left: Sequence[WidthGroup], right: Sequence[WidthGroup] | None, columns: int, reduce: Reduction, long: bool
) -> Float[Tensor, "left right"]:
    """The reduction of X_i'Y_j for every pair, in the order of the groups; `right` is None for pairs of `left`.

    Blocks of members have about `columns` columns together.
    """
    rows, others = _blocks(left, columns), _blocks(left if right is None else right, columns)
    device = left[0].members[0].offset.device
    found = torch.zeros(rows[-1][2].stop, others[-1][2].stop, dtype=torch.float64, device=device)
    steps = [(one, other) for number, one in enumerate(rows) for other in others[number if right is None else 0 :]]
    held: tuple[Block, Tensor] | None = None
    for one, other in track(steps, "comparing features", len(steps), long=long):
        if held is None or held[0] is not one:
            held = None  # frees the old block before the new one is made
            held = (one, _columns(one))
        product = _product(held[1], held[1] if other is one else _columns(other))
        found[one[2], other[2]] = reduce(
            product.view(-1, one[0].width, len(product.T) // other[0].width, other[0].width)
        )
    return found.triu() + found.triu(1).T if right is None else found


def own_squares(groups: Sequence[WidthGroup], columns: int) -> Float[Tensor, "members"]:
    """||X'X||_F^2 of every member, in the order of the groups."""
    found = []
    for group, chosen, _ in _blocks(groups, columns):
        x = group.rows(chosen=chosen)
        found.append(_product(x, x).square_().sum(2).sum(1, dtype=torch.float64))
    return torch.cat(found)


def _blocks(groups: Sequence[WidthGroup], columns: int) -> list[Block]:
    found: list[Block] = []
    start = 0
    for group in groups:
        found += [(group, part, slice(start + part.start, start + part.stop)) for part in blocks(group, columns)]
        start += len(group)
    return found


def _product(
    left: Float[Tensor, "*members items columns"], right: Float[Tensor, "*members items others"]
) -> Float[Tensor, "*members columns others"]:
    """X'Y; long sums of float32 are added up in float64, or they would lose a digit or two."""
    most = MAX_FLOAT32_ITEMS["cpu" if left.device.type == "cpu" else "cuda"]
    if left.shape[-2] <= most or left.dtype == torch.float64:
        return left.mT @ right
    total = left.new_zeros(*left.shape[:-2], left.shape[-1], right.shape[-1], dtype=torch.float64)
    for start in range(0, left.shape[-2], most):
        part = slice(start, start + most)
        total += left[..., part, :].mT @ right[..., part, :]
    return total.to(left.dtype)


def _columns(block: Block) -> Float[Tensor, "items columns"]:
    """The columns of all members next to each other."""
    group, chosen, _ = block
    return group.rows(chosen=chosen).transpose(0, 1).flatten(1)
