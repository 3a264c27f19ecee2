"""Correlations between the columns of two tables of the same items."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Real


def cross_correlations(
    one: Real[np.ndarray, "items columns"], other: Real[np.ndarray, "items others"]
) -> Float[np.ndarray, "columns others"]:
    """Pearson's correlation of each column of one table with each of the other; 0 where a column is constant."""
    return np.asarray((_unit(one) @ _unit(other).T).clip(-1, 1))


def _unit(table: Real[np.ndarray, "items columns"]) -> Float[np.ndarray, "columns items"]:
    """Columns, as rows, centred and scaled to length 1; constant ones become 0."""
    rows = np.array(table.T, dtype=np.float64, order="C")
    low, high = rows.min(1), rows.max(1)
    rows -= rows.mean(1)[:, None]
    rows[low == high] = 0
    # Scaled first, so that no square overflows or vanishes.
    largest = np.maximum(rows.max(1), -rows.min(1))
    rows /= np.where(largest > 0, largest, 1.0)[:, None]
    length = np.sqrt(np.einsum("ci,ci->c", rows, rows))
    return np.asarray(rows / np.where(length > 0, length, 1.0)[:, None])
