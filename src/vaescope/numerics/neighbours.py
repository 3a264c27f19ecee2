"""Exact distances to the nearest neighbours among distinct points, in bounded memory, on the points' device."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

BLOCK_NUMBERS = 2**23  # of one block of a matrix
GATHERED_NUMBERS = 2**22  # of the points gathered at once: more leave the cache, fewer keep threads waiting
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
    unique, place = torch.unique(points, dim=0, return_inverse=True)
    if len(unique) == len(points):
        return points
    order = torch.arange(len(points), device=points.device)
    first = torch.full((len(unique),), len(points), device=points.device)
    first.scatter_reduce_(0, place, order, "amin")
    return points[first.sort().values]


def nearest_distances(
    points: Float[Tensor, "items dimensions"], k: int, block: int = BLOCK_NUMBERS
) -> Float[Tensor, "items neighbours"]:
    """Distances from each point to its `k` nearest others, nearest first, in float64; `points` must be distinct.

    Candidates come from matrix products in float32, which round away small distances; distances to candidates are then
    computed from differences in float64. Points whose neighbours rounding could hide are searched again with products
    in float64 and then, if necessary, by differences to all others.
    """
    items = len(points)
    if not 0 < k < items:
        raise ValueError(f"k must lie in 1..{items - 1} for {items} points, got {k}.")
    found = points.new_full((items, k), math.nan, dtype=torch.float64)
    left = torch.arange(items, device=points.device)
    # The bound on rounding does not hold if the program has lowered the precision of float32 products.
    precise = torch.get_float32_matmul_precision() == "highest"
    for kind in (torch.float32, torch.float64) if precise else (torch.float64,):
        centred, scale = _centred(points, kind, block)
        candidates, beyond = _candidates(centred, left, min(k + SPARE_CANDIDATES, items - 1), block)
        found[left] = _distances(points, left, candidates, block).sort(1).values[:, :k]
        certain = (found[left, -1] * scale).square() <= beyond * (1 + TIE_TOLERANCE)
        left = left[~certain]
        if len(left) == 0:
            return found
    others = torch.arange(items, device=points.device)
    for row in torch.split(left, 1):
        distances = _distances(points, row, others[others != row][None], block)
        found[row] = distances.topk(k, largest=False).values
    return found


def _centred(
    points: Float[Tensor, "items dimensions"], kind: torch.dtype, block: int
) -> tuple[Float[Tensor, "items dimensions"], float]:
    """The points minus their mean, scaled to coordinates near 1, where products lose least, and the scale.

    The scale is a power of two, so that only the differences from the mean are rounded.
    """
    chunks = torch.split(points, max(1, block // points.shape[1]))
    mean = torch.stack([chunk.to(torch.float64).sum(0) / len(points) for chunk in chunks]).sum(0)
    low, high = torch.aminmax(points, dim=0)
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
    centred: Float[Tensor, "items dimensions"], rows: Int[Tensor, "rows"], count: int, block: int
) -> tuple[Int[Tensor, "rows candidates"], Float[Tensor, "rows"]]:
    """The points that may be nearest to each row, and a lower bound of the squared distances to all others.

    Lower bounds are compared: |x|^2 + |y|^2 - 2 x.y minus the rounding error, taken as 8 sqrt(dimensions) roundings of
    the terms, far more than occurs (Higham and Mary, 2019, bound it with probability near 1).
    """
    items, dimensions = centred.shape
    limits = torch.finfo(centred.dtype)
    share = 8 * (math.sqrt(dimensions) + 1) * limits.eps
    lower = torch.linalg.vector_norm(centred, dim=1).square() * (1 - share) - dimensions * limits.tiny
    nearest = _Nearest(centred.new_full((len(rows), count), math.inf), rows.new_zeros((len(rows), count)))
    every = len(rows) == items
    size = max(1, block // items)
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        # If all rows are searched, each pair is multiplied once: entries left of the diagonal were seen above it.
        first = start if every else 0
        bounds = torch.addmm(lower[first:], centred[some], centred[first:].T, alpha=-2).add_(lower[some, None])
        bounds[torch.arange(len(some), device=some.device), some - first] = math.inf
        nearest.update(slice(start, start + size), bounds, first)
        if every and start + size < items:
            nearest.update(slice(start + size, items), bounds[:, size:].T, start)
    beyond = nearest.bounds.amax(1).to(torch.float64)
    return nearest.places, torch.full_like(beyond, math.inf) if count == items - 1 else beyond


@dataclass(frozen=True)
class _Nearest:
    """The smallest bounds of each row so far, unordered, and the points they belong to."""

    bounds: Float[Tensor, "rows candidates"]
    places: Int[Tensor, "rows candidates"]

    def update(self, part: slice, bounds: Float[Tensor, "some others"], first: int) -> None:
        """Take in the bounds of some rows to points that are numbered from `first`."""
        count = self.bounds.shape[1]
        new = bounds.topk(min(count, bounds.shape[1]), largest=False, sorted=False)
        both = torch.cat([self.bounds[part], new.values], 1).topk(count, largest=False, sorted=False)
        self.bounds[part] = both.values
        self.places[part] = torch.cat([self.places[part], new.indices + first], 1).gather(1, both.indices)


def _distances(
    points: Float[Tensor, "items dimensions"],
    rows: Int[Tensor, "rows"],
    others: Int[Tensor, "rows others"],
    block: int,
) -> Float[Tensor, "rows others"]:
    """Distances from differences in float64; the smallest are scaled, so that no square underflows."""
    pairs = max(1, min(block, GATHERED_NUMBERS) // points.shape[1])
    width = min(pairs, others.shape[1])
    found = torch.empty(others.shape, dtype=torch.float64, device=points.device)
    size = max(1, pairs // width)
    parts = (torch.split(part, size) for part in (rows, others, found))
    for some, theirs, into in zip(*parts, strict=True):
        ones = points[some, None].to(torch.float64)
        for places, distances in zip(torch.split(theirs, width, 1), torch.split(into, width, 1), strict=True):
            twos = points[places].to(torch.float64)
            distances.copy_(torch.cdist(ones, twos, compute_mode="donot_use_mm_for_euclid_dist")[:, 0])
    for tiny in torch.split((found < MIN_SQUARABLE).nonzero(), pairs):
        line, column = tiny.T
        difference = points[rows[line]].to(torch.float64) - points[others[line, column]]
        largest = difference.abs().amax(1, keepdim=True)
        found[line, column] = torch.linalg.vector_norm(difference / largest, dim=1) * largest[:, 0]
    return found
