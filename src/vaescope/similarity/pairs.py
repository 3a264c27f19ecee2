"""Similarities of all pairs of hundreds or thousands of representations of the same items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import whole_number
from vaescope.errors import ConfigurationError, DataError, unknown_name
from vaescope.numerics.precision import tf32_products
from vaescope.similarity.features import feature_products, nuclear_norms, own_squares, squares
from vaescope.similarity.groups import Group, grouped, narrowed_members
from vaescope.similarity.kernels import PARTS, block_rows, kernel_products
from vaescope.similarity.tables import Centred, activation_table, same_items

CKA, PROCRUSTES = "cka", "procrustes"
MEASURES = (CKA, PROCRUSTES)
PRECISIONS = ("float32", "float64", "tf32")
MEMORY = 2**30
LONG = 2e11  # operations from which on progress is shown
# Tiles of kernels and blocks of columns: on a CPU they stay in its caches, an accelerator needs more to do at once.
TILES = {"cpu": 128, "cuda": 512}
COLUMNS = {"cpu": 1024, "cuda": 8192}
LEAST_TILE = 8


def all_pairs(
    representations: Sequence[Any] | Mapping[str, Any],
    *,
    measure: str = CKA,
    others: Sequence[Any] | Mapping[str, Any] | None = None,
    memory: int | None = None,
    device: torch.device | str | None = None,
    precision: str | None = None,
) -> Float[np.ndarray, "representations others"]:
    """The similarity of every representation to every other, or to each of `others`.

    Every representation is a table of the same items, of any width. Each is centred and scaled once; then blocks of
    them are multiplied at once, for CKA either their features or their kernels, whichever is less work.

    Args:
        representations: tables, items x features, numpy or torch; a mapping gives them names for messages.
        measure: 'cka' (biased, as `linear_cka`) or 'procrustes'.
        others: the columns of the matrix; without them it is symmetric, and half of it is computed.
        memory: bytes to work in beside the input and the result, 1 GiB by default, on an accelerator half of what is
            free. Centred copies are kept where they fit in half of it, and made again block by block where not.
            Procrustes also keeps a square factor of each representation with more features than items.
        device: where to compute; by default where the first representation is.
        precision: of the products: 'float64' by default if any input is, else 'float32', with errors of about 1e-6.
            'tf32' rounds what is multiplied to 10 bits of mantissa, which tensor cores are far faster with: errors of
            about 1e-5 for a thousand items, up to 1e-3 where a few items outweigh all others. Procrustes takes it as
            'float32'. Sums over blocks are in float64.
    """
    if measure not in MEASURES:
        raise unknown_name("measure", measure, MEASURES)
    tables = _named(representations, "representation")
    columns = {} if others is None else _named(others, "other representation")
    same_items([*tables.items(), *columns.items()])
    place = next(iter(tables.values())).device if device is None else torch.device(device)
    precision = _precision(precision, [*tables.values(), *columns.values()])
    # Singular values are no sums of many products, whose errors would cancel.
    precision = "float32" if (precision, measure) == ("tf32", PROCRUSTES) else precision
    dtype = torch.float64 if precision == "float64" else torch.float32
    rows, right = ([Centred.of(one, name, dtype, place) for name, one in side.items()] for side in (tables, columns))
    if measure == PROCRUSTES:
        rows, right = narrowed_members(rows), narrowed_members(right)
    sizes = Sizes.of(rows, right)
    plan = planned(sizes, measure, _allowed(memory, place), dtype.itemsize, place.type)
    rounded = precision == "tf32"
    with tf32_products(rounded):
        left = grouped(rows, keep=plan.keep, rounded=rounded)
        return _compared(left, grouped(right, keep=plan.keep, rounded=rounded) if right else None, measure, plan)


@dataclass(frozen=True)
class Sizes:
    """Items; of the rows and the columns of the matrix the number and the width together; 0 columns if symmetric."""

    items: int
    rows: int
    columns: int
    row_width: int
    column_width: int
    widest: int

    @classmethod
    def of(cls, rows: Sequence[Centred], columns: Sequence[Centred]) -> Sizes:
        """Of two lists of representations."""
        widths = [[member.table.shape[1] for member in side] for side in (rows, columns)]
        items = len(rows[0].table)
        return cls(items, len(rows), len(columns), sum(widths[0]), sum(widths[1]), max(widths[0] + widths[1]))

    @property
    def feature_work(self) -> float:
        """Operations of the products X'Y."""
        pairs = 2 * self.row_width * self.column_width if self.columns else self.row_width**2
        return float(self.items) * pairs

    @property
    def kernel_work(self) -> float:
        """Operations of forming the kernels and multiplying them."""
        pairs = self.rows * self.columns if self.columns else self.rows**2 / 2
        return float(self.items) ** 2 * (self.row_width + self.column_width + pairs)


@dataclass(frozen=True)
class Plan:
    """Through kernels or features, in tiles or columns of which size, centred copies kept or not, in how many bytes."""

    kernels: bool
    size: int
    keep: bool
    bytes: int
    long: bool


def planned(sizes: Sizes, measure: str, memory: int, itemsize: int, device: str) -> Plan:
    """The way of least work that the memory holds, in the largest blocks that it holds."""
    work = {False: sizes.feature_work} | ({True: sizes.kernel_work} if measure == CKA else {})
    whole = sizes.items * (sizes.row_width + sizes.column_width) * itemsize
    plans = []
    for kernels in sorted(work, key=lambda way: work[way]):
        for keep in (True, False) if whole <= memory // 2 else (False,):
            size, needed = _largest(sizes, kernels, keep, memory - keep * whole, itemsize, device)
            plans.append(Plan(kernels, size, keep, needed + keep * whole, work[kernels] > LONG))
            if plans[-1].bytes <= memory:
                return plans[-1]
    raise ConfigurationError(
        f"memory must be at least {min(plan.bytes for plan in plans)} bytes to compare {sizes.rows + sizes.columns} "
        f"representations of {sizes.items} items and up to {sizes.widest} features, got {memory}. Allow more, or take "
        "fewer at a time."
    )


def _largest(sizes: Sizes, kernels: bool, keep: bool, memory: int, itemsize: int, device: str) -> tuple[int, int]:
    """The largest tile or number of columns that fits, else the least, and the bytes that it needs."""
    usual = (TILES if kernels else COLUMNS)["cpu" if device == "cpu" else "cuda"]
    least = min(LEAST_TILE, sizes.items) if kernels else sizes.widest
    size = max(least, min(usual, sizes.items) if kernels else usual)
    needed = _tile_bytes if kernels else _column_bytes
    while size > least and needed(sizes, size, keep, itemsize, device) > memory:
        size = max(least, size // 2)
    return size, needed(sizes, size, keep, itemsize, device)


def _tile_bytes(sizes: Sizes, tile: int, keep: bool, itemsize: int, device: str) -> int:
    """Tiles of all kernels, one block of products, and the rows of both sides of a tile where they are not kept."""
    count, width = sizes.rows + sizes.columns, sizes.row_width + sizes.column_width
    made = 0 if keep else 2 * tile * (width + sizes.widest)
    rows = sizes.rows if sizes.columns else min(sizes.rows, block_rows(device))
    parts = 1 if device == "cpu" else PARTS
    return itemsize * (count * tile * tile + count * rows * parts + made)


def _column_bytes(sizes: Sizes, columns: int, keep: bool, itemsize: int, device: str) -> int:
    """Two blocks, each laid out twice for a moment, and their product, which float64 sums and reductions copy."""
    made = 2 * columns if keep else 4 * columns
    return itemsize * (sizes.items * made + 4 * columns**2)


def _compared(left: list[Group], right: list[Group] | None, measure: str, plan: Plan) -> np.ndarray:
    columns = left if right is None else right
    if plan.kernels:
        products, own, other = kernel_products(left, right, plan.size, plan.long)
    else:
        reduce = squares if measure == CKA else nuclear_norms
        products = feature_products(left, right, plan.size, reduce, plan.long)
        norms = own_squares if measure == CKA else _square_norms
        own, other = (norms(side, plan.size) for side in (left, columns))
    values = (products / torch.sqrt(own[:, None] * other)).clamp_(max=1.0).cpu().numpy()
    rows, places = ([place for group in side for place in group.places] for side in (left, columns))
    found = np.empty_like(values)
    found[np.ix_(rows, places)] = values
    return found


def _square_norms(groups: Sequence[Group], columns: int) -> Float[Tensor, "members"]:
    """||X||_F^2 of every member, in the order of the groups."""
    norms = [member.square().sum(dtype=torch.float64) for group in groups for member in _each(group)]
    return torch.stack(norms)


def _each(group: Group) -> Iterable[Tensor]:
    return (group.rows(chosen=slice(number, number + 1)) for number in range(len(group)))


def _named(tables: Sequence[Any] | Mapping[str, Any], kind: str) -> dict[str, Tensor]:
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


def _allowed(memory: int | None, device: torch.device) -> int:
    if memory is not None:
        return whole_number("memory", memory, 1)
    return torch.cuda.mem_get_info(device)[0] // 2 if device.type == "cuda" else MEMORY
