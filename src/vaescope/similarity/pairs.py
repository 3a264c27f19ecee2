"""Similarities of all pairs of hundreds or thousands of representations of the same items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import whole_number
from vaescope.codes import CodesLike
from vaescope.errors import ConfigurationError, DataError, unknown_name
from vaescope.numerics.linalg import tf32_products
from vaescope.similarity.products import (
    SUM_PARTS,
    WidthGroup,
    block_rows,
    feature_products,
    group_by_width,
    kernel_products,
    narrow_members,
    nuclear_norms,
    own_squares,
    squares,
)
from vaescope.similarity.tables import CentredTable, activation_table, require_same_items

CKA, PROCRUSTES = "cka", "procrustes"
MEASURES = (CKA, PROCRUSTES)
PRECISIONS = ("float32", "float64", "tf32")
DEFAULT_MEMORY = 2**30
MIN_WORK_FOR_PROGRESS = 2e11  # operations
# Tiles of kernels and blocks of columns: on a CPU they fit into the caches, an accelerator needs larger ones.
MAX_TILE = {"cpu": 128, "cuda": 512}
MAX_COLUMNS = {"cpu": 1024, "cuda": 8192}
MIN_TILE = 8

Tables: TypeAlias = Sequence[CodesLike] | Mapping[str, CodesLike]


def all_pairs(
    representations: Tables,
    *,
    measure: str = CKA,
    others: Tables | None = None,
    memory: int | None = None,
    device: torch.device | str | None = None,
    precision: str | None = None,
) -> Float[np.ndarray, "representations others"]:
    """The similarity of every representation to every other, or to each of `others`.

    Each representation is centred and scaled once; then blocks of them are multiplied at once, for CKA either their
    features or their kernels, whichever is less work.

    Args:
        representations: Tables of the same items, items x features, of any width, or `Representation`s, whose means
            are taken; a mapping gives them names for error messages.
        measure: 'cka' (biased, as `linear_cka`) or 'procrustes'.
        others: The columns of the matrix. Default: `representations`; then half of the symmetric matrix is computed.
        memory: Bytes to work in, in addition to the input and the result. Default: 1 GiB, or on an accelerator half of
            what is free. Centred copies are kept if they fit in half of it, and otherwise made again for each block.
            Procrustes also keeps a square factor of each representation with more features than items.
        device: Where to compute. Default: the device of the first representation.
        precision: Precision of the products. Default: 'float64' if any input has it, else 'float32', with errors of
            about 1e-6. 'tf32' rounds factors to 10 mantissa bits, which is much faster on tensor cores: errors of about
            1e-5 for a thousand items, up to 1e-3 if a few items outweigh all others. Procrustes uses 'float32' for it.
            Sums over blocks are in float64.
    """
    if measure not in MEASURES:
        raise unknown_name("measure", measure, MEASURES)
    tables = _named_tables(representations, "representation")
    columns = {} if others is None else _named_tables(others, "other representation")
    require_same_items([*tables.items(), *columns.items()])
    place = next(iter(tables.values())).device if device is None else torch.device(device)
    precision = _precision(precision, [*tables.values(), *columns.values()])
    # Singular values are not sums of many products, whose errors would cancel.
    precision = "float32" if (precision, measure) == ("tf32", PROCRUSTES) else precision
    dtype = torch.float64 if precision == "float64" else torch.float32
    rows, right = (
        [CentredTable.of(one, name, dtype, place) for name, one in side.items()] for side in (tables, columns)
    )
    if measure == PROCRUSTES:
        rows, right = narrow_members(rows), narrow_members(right)
    widths = (tuple(one.table.shape[1] for one in side) for side in (rows, right))
    sizes = PairSizes(len(rows[0].table), *widths)
    plan = plan_blocks(sizes, measure, _available_memory(memory, place), dtype.itemsize, place.type)
    rounded = precision == "tf32"
    with tf32_products(rounded):
        left = group_by_width(rows, keep=plan.keep, rounded=rounded)
        columns_by_width = group_by_width(right, keep=plan.keep, rounded=rounded) if right else None
        return _compare(left, columns_by_width, measure, plan)


@dataclass(frozen=True)
class PairSizes:
    """The sizes that determine the work of all pairs.

    Attributes:
        items: Number of items.
        rows, columns: Number of features of each representation on each side; no columns if the matrix is symmetric.
    """

    items: int
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @property
    def width(self) -> int:
        """Number of features of all representations together."""
        return sum(self.rows) + sum(self.columns)

    @property
    def widest(self) -> int:
        """Number of features of the widest representation."""
        return max(self.rows + self.columns)

    @property
    def feature_work(self) -> float:
        """Number of operations of the products X'Y."""
        pairs = 2 * sum(self.rows) * sum(self.columns) if self.columns else sum(self.rows) ** 2
        return float(self.items) * pairs

    @property
    def kernel_work(self) -> float:
        """Number of operations of forming the kernels and multiplying them."""
        pairs = len(self.rows) * len(self.columns) if self.columns else len(self.rows) ** 2 / 2
        return float(self.items) ** 2 * (self.width + pairs)


@dataclass(frozen=True)
class BlockPlan:
    """How all pairs are computed.

    Attributes:
        kernels: Through kernels; otherwise through features.
        size: The size of a tile of the kernels, or the number of columns in a block of features.
        keep: Whether centred copies are kept.
        bytes: The memory that this needs.
        long: Whether it takes long enough to show progress.
    """

    kernels: bool
    size: int
    keep: bool
    bytes: int
    long: bool


def plan_blocks(sizes: PairSizes, measure: str, memory: int, itemsize: int, device: str) -> BlockPlan:
    """The plan with the least work, and the largest blocks, that fits in the memory."""
    work = {False: sizes.feature_work} | ({True: sizes.kernel_work} if measure == CKA else {})
    whole = sizes.items * sizes.width * itemsize
    plans = []
    for kernels in sorted(work, key=lambda way: work[way]):
        for keep in (True, False) if whole <= memory // 2 else (False,):
            size, needed = _largest_block(sizes, kernels, keep, memory - keep * whole, itemsize, device)
            plans.append(BlockPlan(kernels, size, keep, needed + keep * whole, work[kernels] > MIN_WORK_FOR_PROGRESS))
            if plans[-1].bytes <= memory:
                return plans[-1]
    raise ConfigurationError(
        f"memory must be at least {min(plan.bytes for plan in plans)} bytes to compare "
        f"{len(sizes.rows + sizes.columns)} representations of {sizes.items} items and up to {sizes.widest} features, "
        f"got {memory}. Raise it, or compare fewer at a time."
    )


def _largest_block(
    sizes: PairSizes, kernels: bool, keep: bool, memory: int, itemsize: int, device: str
) -> tuple[int, int]:
    """The largest tile or number of columns that fits, or the smallest, and the bytes that it needs."""
    usual = (MAX_TILE if kernels else MAX_COLUMNS)["cpu" if device == "cpu" else "cuda"]
    least = min(MIN_TILE, sizes.items) if kernels else sizes.widest
    size = max(least, min(usual, sizes.items) if kernels else usual)
    needed = _tile_bytes if kernels else _column_bytes
    while size > least and needed(sizes, size, keep, itemsize, device) > memory:
        size = max(least, size // 2)
    return size, needed(sizes, size, keep, itemsize, device)


def _tile_bytes(sizes: PairSizes, tile: int, keep: bool, itemsize: int, device: str) -> int:
    """Tiles of all kernels, one block of products, and the rows of both sides of a tile unless they are kept."""
    count, rows = len(sizes.rows + sizes.columns), len(sizes.rows)
    made = 0 if keep else 2 * tile * (sizes.width + sizes.widest)
    rows = rows if sizes.columns else min(rows, block_rows(device))
    parts = 1 if device == "cpu" else SUM_PARTS
    return itemsize * (count * tile * tile + count * rows * parts + made)


def _column_bytes(sizes: PairSizes, columns: int, keep: bool, itemsize: int, device: str) -> int:
    """Two blocks, each copied once, and their product, which is copied by float64 sums and reductions."""
    made = 2 * columns if keep else 4 * columns
    return itemsize * (sizes.items * made + 4 * columns**2)


def _compare(
    left: list[WidthGroup], right: list[WidthGroup] | None, measure: str, plan: BlockPlan
) -> Float[np.ndarray, "rows columns"]:
    columns = left if right is None else right
    if plan.kernels:
        products, own, other = kernel_products(left, right, plan.size, plan.long)
    else:
        reduce = squares if measure == CKA else nuclear_norms
        products = feature_products(left, right, plan.size, reduce, plan.long)
        own, other = (own_squares(side, plan.size) if measure == CKA else _norms(side) for side in (left, columns))
    values = (products / torch.sqrt(own[:, None] * other)).clamp_(max=1.0).cpu().numpy()
    rows, places = ([place for group in side for place in group.places] for side in (left, columns))
    found = np.empty_like(values)
    found[np.ix_(rows, places)] = values
    return found


def _norms(groups: Sequence[WidthGroup]) -> Float[Tensor, "members"]:
    """||X||_F^2 of every member, in the order of the groups."""
    members = (group.rows(chosen=slice(place, place + 1)) for group in groups for place in range(len(group)))
    return torch.stack([member.square().sum(dtype=torch.float64) for member in members])


def _named_tables(tables: Tables, kind: str) -> dict[str, Tensor]:
    if isinstance(tables, Mapping):
        named = {str(name): values for name, values in tables.items()}
    elif isinstance(tables, Sequence):
        named = {f"{kind} {place}": values for place, values in enumerate(tables)}
    else:
        raise DataError(f"{kind}s must be a list or a mapping of tables, got {type(tables).__name__}.")
    if not named:
        raise DataError(f"there must be at least one {kind}, got none.")
    return {name: activation_table(values, name) for name, values in named.items()}


def _precision(precision: str | None, tables: Sequence[Tensor]) -> str:
    if precision is None:
        return "float64" if any(one.dtype == torch.float64 for one in tables) else "float32"
    if precision not in PRECISIONS:
        raise unknown_name("precision", precision, PRECISIONS)
    return precision


def _available_memory(memory: int | None, device: torch.device) -> int:
    if memory is not None:
        return whole_number("memory", memory, 1)
    return torch.cuda.mem_get_info(device)[0] // 2 if device.type == "cuda" else DEFAULT_MEMORY
