"""Interventional robustness: how still each latent stays while its factor does (Suter et al., 2019)."""

from __future__ import annotations

from functools import partial
from typing import Any, Unpack

import numpy as np
import torch
from jaxtyping import Float, Int

from vaescope.checks import finite_number, whole_number
from vaescope.errors import ConfigurationError, unknown_name
from vaescope.metrics.inputs import Labelled
from vaescope.metrics.sampling import Grid, grid_sample
from vaescope.metrics.score import Common, Measured, Score, evaluate
from vaescope.numerics.information import BINS, discretise

CONTINUOUS, ALL = "continuous", "all"


def irs(
    codes: Any,
    factors: Any = None,
    *,
    quantile: float = 0.99,
    bins: int = BINS,
    binned: str = CONTINUOUS,
    **common: Unpack[Common],
) -> Score:
    """The mean over latents of the largest 1 - D / M over factors, each latent weighted by its M.

    M is the greatest distance of a latent from its mean. D is that from its mean among the items that share a value of
    the factor, or rather the `quantile` of those distances (1 in the paper), averaged over the values. Factors that are
    continuous fall into `bins` of equal width; "all" of them do so in disentanglement_lib. Latents that do not vary are
    left out; with none left the score is 0.

    The codes of a perfect model score 1, but noise does not score 0: its outliers make M larger than D, the more so the
    more items there are. The matrix has 1 - D / M. `codes` may be a `Grid`, of which some items are drawn.
    """
    whole_number("bins", bins, 2)
    if not 0 < finite_number("quantile", quantile) <= 1:
        raise ConfigurationError(f"quantile must be above 0 and at most 1, got {quantile!r}.")
    if binned not in (CONTINUOUS, ALL):
        raise unknown_name("binned", binned, (CONTINUOUS, ALL))
    estimator = f"quantile {quantile:g}, {binned} factors in {bins} bins"
    if isinstance(codes, Grid):
        codes, titles = grid_sample(codes, factors, common.get("names"), common.get("seed", 0))
        common = {**common, "names": titles}
        estimator += f", {len(codes)} items of the full grid"
    measure = partial(_robustness, quantile=quantile, bins=bins, binned=binned)
    return evaluate("irs", estimator, measure, codes, factors, **common)


def _robustness(data: Labelled, seed: int, quantile: float, bins: int, binned: str) -> Measured:
    matrix = np.zeros((data.codes.shape[1], len(data.names)))
    kept = np.flatnonzero(np.ptp(data.codes, axis=0) > 0)
    parts = {"latents_kept": float(len(kept))}
    if not len(kept):
        return Measured(0.0, parts, matrix=matrix)
    codes = data.codes[:, kept]
    greatest = np.abs(codes - codes.mean(0)).max(0)
    for place, (column, discrete) in enumerate(zip(data.factors.T, data.discrete, strict=True)):
        whole = discrete and binned == CONTINUOUS
        values = column if whole else discretise(torch.from_numpy(column[:, None]), bins).numpy()[:, 0]
        matrix[kept, place] = 1 - _distance(codes, values.astype(np.int64), quantile) / greatest
    best = matrix[kept].max(1)
    return Measured(float(np.average(best, weights=greatest)), parts, matrix=matrix)


def _distance(
    codes: Float[np.ndarray, "items latents"], values: Int[np.ndarray, "items"], quantile: float
) -> Float[np.ndarray, "latents"]:
    """The mean over values of a quantile of the distances from the mean of the items that share the value."""
    ordered = codes[np.argsort(values, kind="stable")]
    counts = np.bincount(values)
    groups = np.split(ordered, np.cumsum(counts[counts > 0])[:-1])
    found = [np.quantile(np.abs(group - group.mean(0)), quantile, axis=0) for group in groups]
    return np.asarray(np.mean(found, axis=0))
