"""Mean correlation coefficient: each true source against the latent matched to it (Hyvarinen and Morioka, 2016)."""

from __future__ import annotations

from functools import partial
from typing import Unpack

import numpy as np
from jaxtyping import Float

from vaescope.errors import unknown_name
from vaescope.metrics.inputs import CodesLike, FactorsLike, MetricInputs
from vaescope.metrics.registry import METRICS
from vaescope.metrics.score import MetricOptions, RawScore, Score, evaluate

CORRELATIONS = ("pearson", "spearman")


@METRICS.register(
    "mcc", summary="does each source have a latent that correlates with it?", source="Hyvärinen and Morioka 2016"
)
def mcc(
    codes: CodesLike,
    sources: FactorsLike = None,
    *,
    correlation: str = "pearson",
    **options: Unpack[MetricOptions],
) -> Score:
    """The mean absolute correlation of each source with its latent, under the best one-to-one matching.

    With fewer latents than sources, unmatched sources count 0. The matrix has all absolute correlations.

    Args:
        codes: A `Representation` or an array, items x latents.
        sources: One column for each source. Default: the factors of the `Representation`.
        correlation: "pearson", or "spearman" if a source need only be found up to a monotone function.
        names, exclude, types, half_samples, scale, seed: See `MetricOptions`.
    """
    if correlation not in CORRELATIONS:
        raise unknown_name("correlation", correlation, CORRELATIONS)
    measure = partial(_matched, ranked=correlation == "spearman")
    return evaluate("mcc", f"{correlation} correlation, best matching", measure, codes, sources, **options)


def absolute_correlations(
    codes: Float[np.ndarray, "items latents"], sources: Float[np.ndarray, "items sources"]
) -> Float[np.ndarray, "latents sources"]:
    """|r| of each latent with each source; 0 where one of them is constant."""
    return np.asarray(np.abs(_unit(codes).T @ _unit(sources)).clip(max=1))


def _matched(data: MetricInputs, seed: int, ranked: bool) -> RawScore:
    from scipy.optimize import linear_sum_assignment
    from scipy.stats import rankdata

    codes, sources = (rankdata(part, axis=0) if ranked else part for part in (data.codes, data.values))
    matrix = absolute_correlations(codes, sources)
    latents, places = linear_sum_assignment(matrix, maximize=True)
    found = np.zeros(matrix.shape[1])
    found[places] = matrix[latents, places]
    return RawScore(float(found.mean()), by_factor=tuple(found.tolist()), matrix=matrix)


def _unit(table: Float[np.ndarray, "items columns"]) -> Float[np.ndarray, "items columns"]:
    """Columns centred and scaled to length 1; constant ones become 0."""
    varies = (table != table[0]).any(0)
    # Scaled first, so that no square overflows or vanishes.
    centred = np.where(varies, table - table.mean(0), 0.0)
    largest = np.abs(centred).max(0)
    centred /= np.where(largest > 0, largest, 1.0)
    length = np.linalg.norm(centred, axis=0)
    return centred / np.where(length > 0, length, 1.0)
