"""Mean correlation coefficient: each true source beside the latent matched to it (Hyvarinen and Morioka, 2016)."""

from __future__ import annotations

from functools import partial
from typing import Any, Unpack

import numpy as np
from jaxtyping import Float

from vaescope.errors import unknown_name
from vaescope.metrics.inputs import Labelled
from vaescope.metrics.score import Common, Measured, Score, evaluate

CORRELATIONS = ("pearson", "spearman")


def mcc(codes: Any, sources: Any = None, *, correlation: str = "pearson", **common: Unpack[Common]) -> Score:
    """The mean absolute correlation of each source with its own latent, under the best matching of both.

    With fewer latents than sources, those left without one count 0. The matrix has all absolute correlations. Use
    "spearman" where a source need only be found up to a monotone function.
    """
    if correlation not in CORRELATIONS:
        raise unknown_name("correlation", correlation, CORRELATIONS)
    measure = partial(_matched, ranked=correlation == "spearman")
    return evaluate("mcc", f"{correlation} correlation, best matching", measure, codes, sources, **common)


def absolute_correlations(
    codes: Float[np.ndarray, "items latents"], sources: Float[np.ndarray, "items sources"]
) -> Float[np.ndarray, "latents sources"]:
    """|r| of each latent with each source; 0 where one of them does not vary."""
    return np.abs(_unit(codes).T @ _unit(sources)).clip(max=1)


def _matched(data: Labelled, seed: int, ranked: bool) -> Measured:
    from scipy.optimize import linear_sum_assignment
    from scipy.stats import rankdata

    codes, sources = (rankdata(part, axis=0) if ranked else part for part in (data.codes, data.values))
    matrix = absolute_correlations(codes, sources)
    latents, places = linear_sum_assignment(matrix, maximize=True)
    found = np.zeros(matrix.shape[1])
    found[places] = matrix[latents, places]
    return Measured(float(found.mean()), by_factor=tuple(found.tolist()), matrix=matrix)


def _unit(table: Float[np.ndarray, "items columns"]) -> Float[np.ndarray, "items columns"]:
    """Columns about their means, of length 1; those that do not vary are 0."""
    varies = (table != table[0]).any(0)
    # Scaled first, so that no square overflows or vanishes.
    centred = np.where(varies, table - table.mean(0), 0.0)
    largest = np.abs(centred).max(0)
    centred /= np.where(largest > 0, largest, 1.0)
    length = np.linalg.norm(centred, axis=0)
    return centred / np.where(length > 0, length, 1.0)
