"""Distances to orthogonality by equation 29: numerical derivatives, a full SVD, every signed permutation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np


def jacobian(decoder: Callable[[np.ndarray], np.ndarray], code: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Column by column, by central differences."""
    columns = []
    for latent in range(len(code)):
        ahead, behind = code.copy(), code.copy()
        ahead[latent] += step
        behind[latent] -= step
        columns.append((decoder(ahead) - decoder(behind)) / (2 * step))
    return np.stack(columns, 1)


def nearest(rotation: np.ndarray) -> np.ndarray:
    """The signed permutation with the least sum of absolute differences, among all of them."""
    size, best, found = len(rotation), math.inf, rotation
    for order in itertools.permutations(range(size)):
        for signs in itertools.product((-1.0, 1.0), repeat=size):
            candidate = np.zeros((size, size))
            for row, (column, sign) in enumerate(zip(order, signs, strict=True)):
                candidate[row, column] = sign
            difference = float(np.abs(rotation - candidate).sum())
            if difference < best:
                best, found = difference, candidate
    return found


def distance(matrix: np.ndarray) -> float:
    """||V - P(V)|| of one Jacobian."""
    rotation = np.linalg.svd(matrix)[2].T
    return float(np.linalg.norm(rotation - nearest(rotation)))


def cosine(matrix: np.ndarray) -> float:
    """The mean absolute cosine between two columns."""
    found = []
    for first, second in itertools.combinations(matrix.T, 2):
        found.append(abs(float(first @ second)) / (np.linalg.norm(first) * np.linalg.norm(second)))
    return float(np.mean(found))
