"""All pairs through features: products X'Y of blocks of representations, reduced to one number a pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.progress import track
from vaescope.similarity.groups import Group, blocks

SUMMED = {"cpu": 512, "cuda": 4096}
Run = tuple[Group, slice, slice]
Reduction = Callable[[Float[Tensor, "left width right other"]], Float[Tensor, "left right"]]


def squares(products: Float[Tensor, "left width right other"]) -> Float[Tensor, "left right"]:
    """||X'Y||_F^2 of every pair; the products are not needed after."""
    return products.square_().sum(3).sum(1, dtype=torch.float64)


def nuclear_norms(products: Float[Tensor, "left width right other"]) -> Float[Tensor, "left right"]:
    """||X'Y||_* of every pair."""
    return torch.linalg.svdvals(products.transpose(1, 2)).sum(-1, dtype=torch.float64)


def feature_products(
    left: Sequence[Group], right: Sequence[Group] | None, columns: int, reduce: Reduction, long: bool
) -> Float[Tensor, "left right"]:
    """The reduction of X_i'Y_j for every pair, in the order of the groups; `right` is None for pairs of `left`.

    A block is a run of members of about `columns` columns together.
    """
    rows, others = _runs(left, columns), _runs(left if right is None else right, columns)
    device = left[0].members[0].offset.device
    found = torch.zeros(rows[-1][2].stop, others[-1][2].stop, dtype=torch.float64, device=device)
    steps = [(one, other) for number, one in enumerate(rows) for other in others[number if right is None else 0 :]]
    held: tuple[Run, Tensor] | None = None
    for one, other in track(steps, "comparing features", len(steps), long=long):
        if held is None or held[0] is not one:
            held = None  # the old block goes before the new one comes
            held = (one, _columns(one))
        product = _product(held[1], held[1] if other is one else _columns(other))
        found[one[2], other[2]] = reduce(product.unflatten(1, (-1, other[0].width)).unflatten(0, (-1, one[0].width)))
    return found.triu() + found.triu(1).T if right is None else found


def own_squares(groups: Sequence[Group], columns: int) -> Float[Tensor, "members"]:
    """||X'X||_F^2 of every member, in the order of the groups."""
    found = []
    for group, chosen, _ in _runs(groups, columns):
        x = group.rows(chosen=chosen)
        found.append(_product(x, x).square_().sum(2).sum(1, dtype=torch.float64))
    return torch.cat(found)


def _runs(groups: Sequence[Group], columns: int) -> list[Run]:
    """Group, members in it, and their places in the order of the groups."""
    found: list[Run] = []
    start = 0
    for group in groups:
        found += [(group, part, slice(start + part.start, start + part.stop)) for part in blocks(group, columns)]
        start += len(group)
    return found


def _product(
    left: Float[Tensor, "*members items columns"], right: Float[Tensor, "*members items others"]
) -> Float[Tensor, "*members columns others"]:
    """X'Y; sums of float32 over more items than `SUMMED` are added up in float64, or they lose a digit or two."""
    most = SUMMED["cpu" if left.device.type == "cpu" else "cuda"]
    if left.shape[-2] <= most or left.dtype == torch.float64:
        return left.mT @ right
    parts = zip(left.split(most, -2), right.split(most, -2), strict=True)
    total = left.new_zeros(*left.shape[:-2], left.shape[-1], right.shape[-1], dtype=torch.float64)
    for one, other in parts:
        total += one.mT @ other
    return total.to(left.dtype)


def _columns(run: Run) -> Float[Tensor, "items columns"]:
    """The members side by side."""
    group, chosen, _ = run
    return group.rows(chosen=chosen).transpose(0, 1).flatten(1)
