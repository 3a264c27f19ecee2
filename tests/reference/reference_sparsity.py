"""Hoyer's measure and activations by class, item by item."""

from __future__ import annotations

import math

import numpy as np


def scaled(codes: np.ndarray) -> list[list[float]]:
    """Each latent over its standard deviation."""
    columns = []
    for column in codes.T:
        mean = sum(column) / len(column)
        spread = math.sqrt(sum((value - mean) ** 2 for value in column) / len(column))
        columns.append([value / spread for value in column])
    return [list(row) for row in zip(*columns, strict=True)]


def of_item(code: list[float]) -> float:
    """(sqrt(d) - |z|_1 / |z|_2) / (sqrt(d) - 1)."""
    root = math.sqrt(len(code))
    ratio = sum(abs(value) for value in code) / math.sqrt(sum(value**2 for value in code))
    return (root - ratio) / (root - 1)


def hoyer(codes: np.ndarray) -> float:
    """The mean over items."""
    rows = scaled(codes)
    return sum(of_item(row) for row in rows) / len(rows)


def activation(codes: np.ndarray, labels: np.ndarray) -> list[list[float]]:
    """The mean magnitude of each latent in each class, latents x classes."""
    rows = scaled(codes)
    table = []
    for latent in range(codes.shape[1]):
        means = []
        for kind in sorted(set(labels.tolist())):
            values = [abs(row[latent]) for row, own in zip(rows, labels, strict=True) if own == kind]
            means.append(sum(values) / len(values))
        table.append(means)
    return table
