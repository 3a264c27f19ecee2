"""Products of all pairs of representations at once, through their features or their kernels.

Through features, blocks of columns give X'Y. Through kernels, <XX', YY'> is a product of two long rows, for any number
of features: a pair of n items costs n^2 operations instead of 2 n p q, which is less from about p q = n / 2. Kernels
are never whole in memory: they are formed tile by tile for all representations at once, as the rows of one matrix that
is multiplied with itself. Tiles above the diagonal count twice; those below are not formed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.progress import track
from vaescope.similarity.measures import narrow
from vaescope.similarity.tables import CentredTable

MAX_FLOAT32_ITEMS = {"cpu": 512, "cuda": 4096}  # summed in float32; float64 sums add up longer ones
ROWS_PER_PRODUCT = 64  # in blocks, only half of a symmetric matrix is computed
SUM_PARTS = 16  # splitting a long sum uses an accelerator better


@dataclass(frozen=True)
class WidthGroup:
    """Representations of the same width.

    Attributes:
        places: The position of each member in the input.
        members: The representations.
        kept: All of them, centred; None if rows are centred each time they are needed.
        rounded: Whether numbers are rounded to the precision of TF32.
    """

    places: tuple[int, ...]
    members: tuple[CentredTable, ...]
    kept: Float[Tensor, "members items width"] | None
    rounded: bool

    @property
    def width(self) -> int:
        """The number of features of each member."""
        return self.members[0].table.shape[1]

    def __len__(self) -> int:
        return len(self.members)

    def rows(self, part: slice = slice(None), chosen: slice = slice(None)) -> Float[Tensor, "chosen part width"]:
        """Some items of some members. Default: all."""
        if self.kept is not None:
            return self.kept[chosen, part]
        return _stacked(self.members[chosen], part, self.rounded)


Block = tuple[WidthGroup, slice, slice]  # a group, some of its members, and their places in the order of the groups
Reduction = Callable[[Float[Tensor, "left width right other"]], Float[Tensor, "left right"]]


def group_by_width(members: Sequence[CentredTable], *, keep: bool, rounded: bool) -> list[WidthGroup]:
    """Group members by width; `keep` centred copies, `rounded` to the precision of TF32."""
    widths: dict[int, list[int]] = {}
    for place, member in enumerate(members):
        widths.setdefault(member.table.shape[1], []).append(place)
    found = []
    for _, places in sorted(widths.items()):
        chosen = tuple(members[place] for place in places)
        kept = _stacked(chosen, slice(None), rounded) if keep else None
        found.append(WidthGroup(tuple(places), chosen, kept, rounded))
    return found


def narrow_members(members: Sequence[CentredTable]) -> list[CentredTable]:
    """Replace members with more features than items by square factors of their kernels."""
    found = []
    for member in members:
        if member.table.shape[1] > len(member.table):
            factor = narrow(member.rows())
            member = CentredTable(factor, factor.mean(0) - factor[0], 1.0)
        found.append(member)
    return found


def round_to_tf32(values: Tensor) -> Tensor:
    """Round float32 numbers in place to the 10 mantissa bits of TF32, to the nearest.

    Tensor cores may truncate the other bits, which would bias every product towards 0.
    """
    bits = values.view(torch.int32)
    bits.add_(0x1000).bitwise_and_(-0x2000)
    return values


def _stacked(members: Sequence[CentredTable], part: slice, rounded: bool) -> Tensor:
    like = members[0].offset
    count = len(range(*part.indices(len(members[0].table))))
    whole = torch.empty(len(members), count, len(like), dtype=like.dtype, device=like.device)
    for place, member in enumerate(members):
        whole[place] = member.rows(part)
    return round_to_tf32(whole) if rounded else whole


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
    """Blocks of about `columns` columns each, with at least one member."""
    found: list[Block] = []
    first = 0
    for group in groups:
        size = max(1, columns // group.width)
        for start in range(0, len(group), size):
            stop = min(start + size, len(group))
            found.append((group, slice(start, stop), slice(first + start, first + stop)))
        first += len(group)
    return found


def _product(
    left: Float[Tensor, "*members items columns"], right: Float[Tensor, "*members items others"]
) -> Float[Tensor, "*members columns others"]:
    """X'Y; long sums of float32 are accumulated in float64, because they would lose a digit or two."""
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
    block, starts = block_rows(like.device.type), range(0, items, tile)
    pairs = [(one, other) for one in starts for other in starts if other >= one]
    for one, other in track(pairs, "comparing kernels", len(pairs), long=long):
        weight = 1.0 if one == other else 2.0
        parts = (slice(one, min(one + tile, items)), slice(other, min(other + tile, items)))
        rows = _kernels(groups, *parts, space)
        if right is None:
            for start in range(0, count, block):  # the blocks on and right of the diagonal
                chosen = slice(start, start + block)
                products[chosen, start:].add_(_product_of_kernels(rows[chosen], rows[start:]), alpha=weight)
        else:
            products.add_(_product_of_kernels(rows[:split], rows[split:]), alpha=weight)
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


def _product_of_kernels(left: Float[Tensor, "left entries"], right: Float[Tensor, "right entries"]) -> Tensor:
    if left.device.type == "cpu" or left.shape[1] % SUM_PARTS:
        return left @ right.T
    return product_in_parts(left, right)


def product_in_parts(
    left: Float[Tensor, "left entries"], right: Float[Tensor, "right entries"]
) -> Float[Tensor, "left right"]:
    """LR' as many shorter products, which run in parallel and round less; summed in float64."""
    first, second = (side.view(len(side), SUM_PARTS, -1).transpose(0, 1) for side in (left, right))
    return torch.bmm(first, second.mT).sum(0, dtype=torch.float64)
