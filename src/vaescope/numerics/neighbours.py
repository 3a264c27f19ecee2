"""Exact distances to the nearest neighbours among distinct points, in bounded memory, on the points' device."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

BLOCK_NUMBERS = 2**23  # of one block of a matrix
MAX_TREE_DIMENSIONS = 8  # in more, products are faster, for 1,000 points as for 50,000
LEAF_POINTS = 32  # of the tree
ROW_NUMBERS = {"cpu": 2**20, "cuda": 2**23}  # of one block that is searched by row: more exceed the cache
GATHERED_NUMBERS = {"cpu": 2**18, "cuda": 2**22}  # of the points gathered at once, likewise
STRIP = 8  # entries of a row that are first compared as one
MIN_STRIPS = 4  # for each smallest entry; with fewer strips, the whole row is searched
MIN_SHARED_DIMENSIONS = 512  # from which each product serves both of its points
MIN_BLOCKS = 4  # then; those on the diagonal compute both halves
MIN_SQUARABLE = 1e-140  # squares of smaller distances underflow
SPARE_CANDIDATES = 8  # beyond k, so that the rounding of a matrix product rarely hides a neighbour
TIE_TOLERANCE = 1e-9  # relative error of a squared distance within which neighbours count as equally distant


@dataclass(frozen=True)
class Neighbours:
    """Distances from each distinct point to its nearest others, nearest first, and the number of removed duplicates."""

    distances: Float[Tensor, "items neighbours"]
    duplicates: int = 0

    @property
    def items(self) -> int:
        """The number of distinct points."""
        return len(self.distances)

    @property
    def k(self) -> int:
        """The number of neighbours of each point."""
        return self.distances.shape[1]


def distinct(points: Float[Tensor, "items dimensions"]) -> Float[Tensor, "kept dimensions"]:
    """Each point once, in order of first appearance."""
    # Most continuous data differ in the first coordinate already; only points that share it are compared as a whole.
    _, place, counts = torch.unique(points[:, 0], return_inverse=True, return_counts=True)
    shared = (counts[place] > 1).nonzero()[:, 0]
    unique, place = torch.unique(points[shared], dim=0, return_inverse=True)
    if len(unique) == len(shared):
        return points
    first = torch.full((len(unique),), len(points), device=points.device).scatter_reduce_(0, place, shared, "amin")
    kept = torch.ones(len(points), dtype=torch.bool, device=points.device)
    kept[shared] = False
    kept[first] = True
    return points[kept]


def nearest_distances(
    points: Float[Tensor, "items dimensions"], k: int, block: int = BLOCK_NUMBERS
) -> Float[Tensor, "items neighbours"]:
    """Distances from each point to its `k` nearest others, nearest first, in float64; `points` must be distinct.

    On a CPU points of few dimensions are searched in a tree, where it is faster. Of others, candidates come from matrix
    products in float32, which round away small distances; distances to candidates are then computed from differences in
    float64. Points whose neighbours rounding could hide are searched again with products in float64 and then, if
    necessary, by differences to all others.
    """
    items, dimensions = points.shape
    if not 0 < k < items:
        raise ValueError(f"k must lie in 1..{items - 1} for {items} points, got {k}.")
    if points.device.type == "cpu" and dimensions <= MAX_TREE_DIMENSIONS:
        found = _tree_distances(points, k)
        left = (found[:, 0] < MIN_SQUARABLE).nonzero()[:, 0]
    else:
        found = points.new_full((items, k), math.nan, dtype=torch.float64)
        left = torch.arange(items, device=points.device)
    # The bound on rounding does not hold if the program has lowered the precision of float32 products.
    precise = torch.get_float32_matmul_precision() == "highest"
    for kind in (torch.float32, torch.float64) if precise else (torch.float64,):
        if len(left) == 0:
            return found
        centred, scale = _centred(points, kind, block)
        candidates, beyond = _candidates(centred, left, k, block)
        found[left] = _distances(points, left, candidates, block).sort(1).values[:, :k]
        certain = (found[left, -1] * scale).square() <= beyond * (1 + TIE_TOLERANCE)
        left = left[~certain]
    others = torch.arange(items, device=points.device)
    for row in left[:, None]:
        distances = _distances(points, row, others[others != row][None], block)
        found[row] = distances.topk(k, largest=False).values
    return found


def _tree_distances(points: Float[Tensor, "items dimensions"], k: int) -> Float[Tensor, "items neighbours"]:
    """Distances from differences in float64, found in a k-d tree."""
    from scipy.spatial import KDTree

    coordinates = points.double().numpy()
    distances, _ = KDTree(coordinates, LEAF_POINTS).query(coordinates, k + 1, workers=torch.get_num_threads())
    return torch.from_numpy(distances[:, 1:])  # without the point itself


def _centred(
    points: Float[Tensor, "items dimensions"], kind: torch.dtype, block: int
) -> tuple[Float[Tensor, "items dimensions"], float]:
    """The points minus their mean, scaled to coordinates near 1, where products lose least, and the scale.

    The scale is a power of two, so that only the differences from the mean are rounded.
    """
    chunks = torch.split(points, max(1, block // points.shape[1]))
    mean = torch.stack([chunk.to(torch.float64).sum(0) / len(points) for chunk in chunks]).sum(0)
    low, high = points.amin(0), points.amax(0)
    unit = float(torch.maximum(high - mean, mean - low).max())
    working = torch.promote_types(points.dtype, kind)
    # Within these exponents the scale and the scaled numbers are representable.
    most = 126 if working == torch.float32 else 1000
    scale = math.ldexp(1.0, min(max(-math.frexp(unit)[1], -most), most))
    centre = (mean * scale).to(working)
    centred = points.new_empty(points.shape, dtype=kind)
    for chunk, into in zip(chunks, torch.split(centred, len(chunks[0])), strict=True):
        into.copy_((chunk.to(working) * scale).sub_(centre))
    return centred, scale


def _candidates(
    centred: Float[Tensor, "items dimensions"], rows: Int[Tensor, "rows"], k: int, block: int
) -> tuple[Int[Tensor, "rows candidates"], Float[Tensor, "rows"]]:
    """The points that may be the `k` nearest to each row, and a lower bound of the squared distances to all others.

    Lower bounds are compared: |x|^2 + |y|^2 - 2 x.y minus the rounding error, taken as 8 sqrt(dimensions) roundings of
    the terms, far more than occurs (Higham and Mary, 2019, bound it with probability near 1).
    """
    items, dimensions = centred.shape
    count = min(k + SPARE_CANDIDATES, items - 1)
    limits = torch.finfo(centred.dtype)
    share = 8 * (math.sqrt(dimensions) + 1) * limits.eps
    lower = torch.linalg.vector_norm(centred, dim=1).square() * (1 - share) - dimensions * limits.tiny
    nearest = _Nearest(centred.new_full((len(rows), count), math.inf), rows.new_zeros((len(rows), count)))
    # Each product serves both of its points where it costs more than searching the columns of a block, too.
    shared = len(rows) == items and dimensions >= MIN_SHARED_DIMENSIONS
    if shared:
        size = max(1, min(block // items, math.ceil(items / MIN_BLOCKS)))
    else:
        size = max(1, min(block, ROW_NUMBERS[_kind(centred)]) // items)
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        first = start if shared else 0  # entries left of the diagonal were seen above it
        bounds = torch.addmm(lower[first:], centred[some], centred[first:].T, alpha=-2).add_(lower[some, None])
        bounds[torch.arange(len(some), device=some.device), some - first] = math.inf
        part = slice(start, start + size)
        if not shared:
            nearest.bounds[part], nearest.places[part] = smallest_entries(bounds, count)
            continue
        nearest.update(part, bounds, first)
        if start + size < items:
            nearest.update(slice(start + size, items), bounds[:, size:].T, start)
    beyond = nearest.bounds.amax(1).to(torch.float64)
    if count == items - 1:
        beyond.fill_(math.inf)
    if not shared:
        return nearest.places, beyond
    # Exact distances are as expensive: spare candidates are dropped where rounding cannot have hidden a neighbour.
    error = 2 * share / (1 - share) * (lower[rows, None] + lower[nearest.places])
    furthest = (nearest.bounds + error).kthvalue(k, 1, keepdim=True).values
    kept = int((nearest.bounds <= furthest).sum(1).max())
    order = nearest.bounds.argsort(1)[:, :kept]
    return nearest.places.gather(1, order), beyond


@dataclass(frozen=True)
class _Nearest:
    """The smallest bounds of each row so far, unordered, and the points they belong to."""

    bounds: Float[Tensor, "rows candidates"]
    places: Int[Tensor, "rows candidates"]

    def update(self, part: slice, bounds: Float[Tensor, "some others"], first: int) -> None:
        """Update with the bounds between some rows and points that are numbered from `first`."""
        count = self.bounds.shape[1]
        values, places = smallest_entries(bounds, min(count, bounds.shape[1]))
        both = torch.cat([self.bounds[part], values], 1).topk(count, largest=False, sorted=False)
        self.bounds[part] = both.values
        self.places[part] = torch.cat([self.places[part], places + first], 1).gather(1, both.indices)


def smallest_entries(
    bounds: Float[Tensor, "rows others"], count: int
) -> tuple[Float[Tensor, "rows count"], Int[Tensor, "rows count"]]:
    """The `count` smallest entries of each row and their places, unordered: those of wide rows lie in the `count`
    strips with the smallest minima, which are found much faster."""
    others = bounds.shape[1]
    strips = others // STRIP
    if strips < MIN_STRIPS * count:
        found = bounds.topk(count, largest=False, sorted=False)
        return found.values, found.indices
    whole, numbers = strips * STRIP, torch.arange(others, device=bounds.device)
    minima = bounds[:, :whole].unflatten(1, (STRIP, strips)).amin(1)
    best = minima.topk(count, largest=False, sorted=False).indices
    inside = (best[:, :, None] + numbers[:whole:strips]).flatten(1)
    places = torch.cat([inside, numbers[whole:].expand(len(bounds), -1)], 1)
    found = bounds.gather(1, places).topk(count, largest=False, sorted=False)
    return found.values, places.gather(1, found.indices)


def _kind(points: Tensor) -> str:
    return "cpu" if points.device.type == "cpu" else "cuda"


def _distances(
    points: Float[Tensor, "items dimensions"],
    rows: Int[Tensor, "rows"],
    others: Int[Tensor, "rows others"],
    block: int,
) -> Float[Tensor, "rows others"]:
    """Distances from differences in float64; the smallest are scaled, so that no square underflows."""
    pairs = max(1, min(block, GATHERED_NUMBERS[_kind(points)]) // points.shape[1])
    width = min(pairs, others.shape[1])
    found = torch.empty(others.shape, dtype=torch.float64, device=points.device)
    size = max(1, pairs // width)
    parts = (torch.split(part, size) for part in (rows, others, found))
    for some, theirs, into in zip(*parts, strict=True):
        ones = points[some, None].to(torch.float64)
        for places, distances in zip(torch.split(theirs, width, 1), torch.split(into, width, 1), strict=True):
            # Rows are copied whole, unlike by points[places].
            twos = points.index_select(0, places.flatten()).to(torch.float64).view(*places.shape, -1)
            distances.copy_(torch.cdist(ones, twos, compute_mode="donot_use_mm_for_euclid_dist")[:, 0])
    for tiny in torch.split((found < MIN_SQUARABLE).nonzero(), pairs):
        line, column = tiny.T
        difference = points[rows[line]].to(torch.float64) - points[others[line, column]]
        largest = difference.abs().amax(1, keepdim=True)
        found[line, column] = torch.linalg.vector_norm(difference / largest, dim=1) * largest[:, 0]
    return found
