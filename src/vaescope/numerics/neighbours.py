"""Exact distances to the nearest neighbours among distinct points, in bounded memory, on the points' device."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

BLOCK = 2**23  # numbers of one block of a matrix
CACHED = 2**20  # numbers of a block of differences, which are read again at once
TINY = 1e-140  # distances from here down have squares that underflow
SPARE = 8  # candidates beyond k, so that the rounding of a matrix product rarely hides a neighbour
SLACK = 1e-9  # relative error of a squared distance at which neighbours count as equally far


@dataclass(frozen=True)
class Neighbours:
    """Distances of each distinct point to its nearest others, nearest first, and how many duplicates were left out."""

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
    """Each point once, in the order in which they first come."""
    unique, place = torch.unique(points, dim=0, return_inverse=True)
    if len(unique) == len(points):
        return points
    order = torch.arange(len(points), device=points.device)
    first = torch.full((len(unique),), len(points), device=points.device)
    first.scatter_reduce_(0, place, order, "amin")
    return points[first.sort().values]


def nearest_distances(
    points: Float[Tensor, "items dimensions"], k: int, block: int = BLOCK
) -> Float[Tensor, "items neighbours"]:
    """Distances of each point to its `k` nearest others, nearest first, in float64; `points` must be distinct.

    Candidates come from matrix products in float32, which round away small distances; those of the candidates are
    computed again from differences in float64. A point whose neighbours the rounding could still hide is searched
    again with products in float64, and then, if need be, by differences to all others.
    """
    items = len(points)
    if not 0 < k < items:
        raise ValueError(f"k must lie in 1..{items - 1} for {items} points, got {k}.")
    found = points.new_full((items, k), math.nan, dtype=torch.float64)
    left = torch.arange(items, device=points.device)
    # Lowered precision of float32 products, which a program may have asked for, would break the bound on rounding.
    precise = torch.get_float32_matmul_precision() == "highest"
    for kind in (torch.float32, torch.float64) if precise else (torch.float64,):
        centred, unit = _centred(points, kind, block)
        hidden = [left[:0]]
        for rows in left.split(max(1, block // items)):
            candidates, beyond = _candidates(centred, rows, min(k + SPARE, items - 1))
            found[rows] = _distances(points, rows, candidates, block).sort(1).values[:, :k]
            certain = (found[rows, -1] / unit).square() <= beyond * (1 + SLACK)
            hidden.append(rows[~certain])
        left = torch.cat(hidden)
        if len(left) == 0:
            return found
    others = torch.arange(items, device=points.device)
    for row in left.split(1):
        distances = _distances(points, row, others[others != row][None], block)
        found[row] = distances.topk(k, largest=False).values
    return found


def _centred(
    points: Float[Tensor, "items dimensions"], kind: torch.dtype, block: int
) -> tuple[Float[Tensor, "items dimensions"], float]:
    """The points about their mean, in units of the largest coordinate, and that unit; products then lose least."""
    chunks = points.split(max(1, block // points.shape[1]))
    mean = torch.stack([chunk.to(torch.float64).sum(0) / len(points) for chunk in chunks]).sum(0)
    unit = max(float((chunk - mean).abs().max()) for chunk in chunks)
    return torch.cat([((chunk - mean) / unit).to(kind) for chunk in chunks]), unit


def _candidates(
    centred: Float[Tensor, "items dimensions"], rows: Int[Tensor, "rows"], count: int
) -> tuple[Int[Tensor, "rows candidates"], Float[Tensor, "rows"]]:
    """The others that may be nearest to each row, and a number that no squared distance to the rest is below.

    Compared are lower bounds: |x|^2 + |y|^2 - 2 x.y, less what rounding can add to it, taken as 8 sqrt(dimensions)
    roundings of the terms, far beyond what is met (Higham and Mary, 2019, bound it with certainty near 1).
    """
    items, dimensions = centred.shape
    limits = torch.finfo(centred.dtype)
    share = 8 * (math.sqrt(dimensions) + 1) * limits.eps
    squares = centred.square().sum(1)
    bounds = (squares[rows, None] + squares) * (1 - share) - dimensions * limits.tiny
    bounds.addmm_(centred[rows], centred.T, alpha=-2)
    bounds[torch.arange(len(rows), device=rows.device), rows] = math.inf
    nearest = bounds.topk(count, largest=False, sorted=False)
    beyond = nearest.values.amax(1).to(torch.float64)
    return nearest.indices, torch.full_like(beyond, math.inf) if count == items - 1 else beyond


def _distances(
    points: Float[Tensor, "items dimensions"],
    rows: Int[Tensor, "rows"],
    others: Int[Tensor, "rows others"],
    block: int,
) -> Float[Tensor, "rows others"]:
    """Distances from differences in float64; the smallest in units of a coordinate, so that no square underflows."""
    ones, twos = rows[:, None].expand_as(others).flatten(), others.flatten()
    pairs = max(1, min(block, CACHED) // points.shape[1])
    parts = []
    for one, two in zip(ones.split(pairs), twos.split(pairs), strict=True):
        difference = points[one].to(torch.float64) - points[two]
        distance = torch.linalg.vector_norm(difference, dim=1)
        tiny = distance < TINY
        if bool(tiny.any()):
            largest = difference[tiny].abs().amax(1, keepdim=True)
            distance[tiny] = torch.linalg.vector_norm(difference[tiny] / largest, dim=1) * largest[:, 0]
        parts.append(distance)
    return torch.cat(parts).reshape(others.shape)
