"""Mean correlation coefficient over all matchings, one after another."""

from __future__ import annotations

import itertools
import math

import numpy as np

from reference.reference_sap import squared_correlation


def mcc(codes: np.ndarray, sources: np.ndarray) -> float:
    """The greatest mean absolute correlation over ways to give each source its own latent; for few latents."""
    latents, count = codes.shape[1], sources.shape[1]
    table = [
        [math.sqrt(squared_correlation(codes[:, i].tolist(), sources[:, j].tolist())) for j in range(count)]
        for i in range(latents)
    ]
    return max(
        sum(table[latent][place] for place, latent in enumerate(chosen)) / count
        for chosen in itertools.permutations(range(latents), count)
    )


def ranks(values: np.ndarray) -> list[float]:
    """1 for the least; equal values share the mean of their ranks."""
    listed = values.tolist()
    return [
        sum(other < value for other in listed) + (sum(other == value for other in listed) + 1) / 2 for value in listed
    ]
