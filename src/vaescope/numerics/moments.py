"""Mean, variance and covariance of chunks on any device, merged by Chan's update in float64."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Moments:
    """Count, mean and scatter (sum of outer products about the mean) of the rows seen so far."""

    count: int
    mean: Float[Tensor, "columns"]
    scatter: Float[Tensor, "columns columns"]

    @classmethod
    def of(cls, rows: Float[Tensor, "items columns"]) -> Moments:
        """The moments of one chunk."""
        rows = rows.to(torch.float64)
        mean = rows.mean(0) if len(rows) else rows.new_zeros(rows.shape[1])
        centred = rows - mean
        return cls(len(rows), mean, centred.T @ centred)

    @classmethod
    def over(cls, chunks: Iterable[Float[Tensor, "_ columns"]]) -> Moments:
        """The moments of all chunks together; memory holds one chunk at a time."""
        parts = map(cls.of, chunks)
        first = next(parts, None)
        if first is None:
            raise ValueError("moments need at least one chunk, got none.")
        return reduce(Moments.merge, parts, first)

    def merge(self, other: Moments) -> Moments:
        """The moments of both sets of rows together."""
        if self.count + other.count == 0:
            return self
        count, mean, shift, weight = _merged(self, other)
        return Moments(count, mean, self.scatter + other.scatter + torch.outer(shift, shift) * weight)

    def covariance(self, correction: int = 1) -> Float[Tensor, "columns columns"]:
        """Scatter / (count - correction): correction 1 is unbiased, 0 that of the empirical distribution."""
        if self.count <= correction:
            raise ValueError(f"covariance needs more than {correction} rows, got {self.count}.")
        return self.scatter / (self.count - correction)


@dataclass(frozen=True)
class Spread:
    """Count, mean and sum of squared deviations of each column, without the covariances between columns."""

    count: int
    mean: Float[Tensor, "columns"]
    squares: Float[Tensor, "columns"]

    @classmethod
    def of(cls, rows: Float[Tensor, "items columns"]) -> Spread:
        """The spread of one chunk of at least one row; kept on the CPU."""
        rows = rows.to(torch.float64)
        mean = rows.mean(0)
        return cls(len(rows), mean.cpu(), (rows - mean).square_().sum(0).cpu())

    def merge(self, other: Spread) -> Spread:
        """The spread of both sets of rows together."""
        count, mean, shift, weight = _merged(self, other)
        return Spread(count, mean, self.squares + other.squares + shift.square() * weight)

    @property
    def variance(self) -> Float[Tensor, "columns"]:
        """The variance with divisor count, not count - 1."""
        return self.squares / self.count


def _merged(one: Moments | Spread, other: Moments | Spread) -> tuple[int, Tensor, Tensor, float]:
    """Count and mean of both sets, the shift between their means, and its weight (Chan, Golub and LeVeque, 1979)."""
    count = one.count + other.count
    share, shift = other.count / count, other.mean - one.mean
    return count, one.mean + shift * share, shift, one.count * share
