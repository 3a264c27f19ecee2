"""Mean, variance and covariance of chunks on any device, merged by Chan's update in float64."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class RunningMoments:
    """Count, mean and scatter (sum of outer products about the mean) of the rows seen so far."""

    count: int
    mean: Float[Tensor, "columns"]
    scatter: Float[Tensor, "columns columns"]

    @classmethod
    def of(cls, rows: Float[Tensor, "items columns"]) -> RunningMoments:
        """The moments of one chunk."""
        rows = rows.to(torch.float64)
        mean = rows.mean(0) if len(rows) else rows.new_zeros(rows.shape[1])
        centred = rows - mean
        return cls(len(rows), mean, centred.T @ centred)

    @classmethod
    def over(cls, chunks: Iterable[Float[Tensor, "_ columns"]]) -> RunningMoments:
        """The moments of all chunks together; memory holds one chunk at a time."""
        parts = map(cls.of, chunks)
        first = next(parts, None)
        if first is None:
            raise ValueError("moments need at least one chunk, got none.")
        return reduce(RunningMoments.merge, parts, first)

    def merge(self, other: RunningMoments) -> RunningMoments:
        """The moments of both sets of rows together."""
        if self.count + other.count == 0:
            return self
        mean, shift, weight = _merged(self, other)
        return RunningMoments(
            self.count + other.count, mean, self.scatter + other.scatter + torch.outer(shift, shift) * weight
        )

    def covariance(self, correction: int = 1) -> Float[Tensor, "columns columns"]:
        """Scatter / (count - correction): correction 1 is unbiased, 0 that of the empirical distribution."""
        if self.count <= correction:
            raise ValueError(f"covariance needs more than {correction} rows, got {self.count}.")
        return self.scatter / (self.count - correction)


@dataclass(frozen=True)
class Spread:
    """Count, mean and sum of squared deviations of each column, without the covariances between columns.

    The count is one number, or one for each column if cells are missing.
    """

    count: int | Float[Tensor, "columns"]
    mean: Float[Tensor, "columns"]
    squares: Float[Tensor, "columns"]

    @classmethod
    def of(cls, rows: Float[Tensor, "items columns"]) -> Spread:
        """The spread of one chunk of at least one row; kept on the CPU."""
        rows = rows.to(torch.float64)
        mean = rows.mean(0)
        return cls(len(rows), mean.cpu(), (rows - mean).square_().sum(0).cpu())

    @classmethod
    def of_known(cls, rows: Float[Tensor, "items columns"]) -> Spread:
        """The spread of the cells of one chunk that are not NaN, with a count for each column."""
        rows = rows.to(torch.float64)
        known = ~rows.isnan()
        count = known.sum(0).double()
        mean = rows.nansum(0) / count.clamp_min(1)
        squares = torch.where(known, rows - mean, 0).square_().sum(0)
        return cls(count.cpu(), mean.cpu(), squares.cpu())

    def pooled(self, groups: int) -> Spread:
        """The spread of `groups` equal groups of consecutive columns, each as one column."""
        if groups == len(self.mean):
            return self
        counts = torch.zeros_like(self.mean) + self.count
        count, mean, squares = (part.view(groups, -1) for part in (counts, self.mean, self.squares))
        total = count.sum(1)
        centre = (count * mean).sum(1) / total
        return Spread(total, centre, (squares + count * (mean - centre[:, None]).square()).sum(1))

    def merge(self, other: Spread) -> Spread:
        """The spread of both sets of rows together."""
        mean, shift, weight = _merged(self, other)
        return Spread(self.count + other.count, mean, self.squares + other.squares + shift.square() * weight)

    @property
    def variance(self) -> Float[Tensor, "columns"]:
        """The variance with divisor count, not count - 1."""
        return self.squares / self.count


def _merged(one: RunningMoments | Spread, other: RunningMoments | Spread) -> tuple[Tensor, Tensor, Tensor]:
    """The mean of both sets, the shift between their means, and its weight (Chan, Golub and LeVeque, 1979)."""
    shift = other.mean - one.mean
    # A column without a value in either set has no share.
    share = torch.as_tensor(other.count / (one.count + other.count), dtype=torch.float64).nan_to_num()
    return one.mean + shift * share, shift, one.count * share
