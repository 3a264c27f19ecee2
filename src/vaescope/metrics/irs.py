"""Interventional robustness: how little each latent changes while its factor is fixed (Suter et al., 2019)."""

from __future__ import annotations

from functools import partial
from typing import Unpack

import numpy as np
import torch
from jaxtyping import Float, Int

from vaescope.checks import finite_number, whole_number
from vaescope.errors import ConfigurationError, unknown_name
from vaescope.metrics.inputs import CodesLike, FactorsLike, MetricInputs
from vaescope.metrics.registry import METRICS
from vaescope.metrics.sampling import FactorGrid
from vaescope.metrics.score import MetricOptions, RawScore, Score, evaluate
from vaescope.numerics.information import BINS, discretise

CONTINUOUS, ALL = "continuous", "all"


@METRICS.register("irs", summary="does a latent change while its factor is fixed?", source="Suter et al. 2019")
def irs(
    codes: CodesLike | FactorGrid,
    factors: FactorsLike = None,
    *,
    quantile: float = 0.99,
    bins: int = BINS,
    binned: str = CONTINUOUS,
    **options: Unpack[MetricOptions],
) -> Score:
    """The mean over latents of the largest 1 - D / M over factors, each latent weighted by its M.

    M is the greatest distance of a latent from its mean. D is a quantile of its distances from its mean among the items
    that share a value of the factor, averaged over the values. Constant latents are left out; with none left the score
    is 0. The codes of a perfect model score 1, but noise does not score 0: its outliers make M larger than D, the more
    so the more items there are. The matrix has 1 - D / M.

    Args:
        codes: A `Representation`, an array, items x latents, or a `FactorGrid`, from which items are drawn.
        factors: One column for each factor. Default: those of the `Representation`.
        quantile: The quantile of the distances in D; 1 in the paper.
        bins: Number of bins of equal width for binned factors.
        binned: Which factors are binned: "continuous" ones, or "all" as in disentanglement_lib.
        names, exclude, types, half_samples, scale, seed: See `MetricOptions`.
    """
    whole_number("bins", bins, 2)
    if not 0 < finite_number("quantile", quantile) <= 1:
        raise ConfigurationError(f"quantile must be above 0 and at most 1, got {quantile!r}.")
    if binned not in (CONTINUOUS, ALL):
        raise unknown_name("binned", binned, (CONTINUOUS, ALL))
    estimator = f"quantile {quantile:g}, {binned} factors in {bins} bins"
    if isinstance(codes, FactorGrid):
        codes, factors, options["names"] = codes.sample(factors, options.get("names"), options.get("seed", 0))
        estimator += f", {len(factors)} items of the full grid"
    measure = partial(_robustness, quantile=quantile, bins=bins, binned=binned)
    return evaluate("irs", estimator, measure, codes, factors, **options)


def _robustness(data: MetricInputs, seed: int, quantile: float, bins: int, binned: str) -> RawScore:
    matrix = np.zeros((data.codes.shape[1], len(data.names)))
    kept = np.flatnonzero(np.ptp(data.codes, axis=0) > 0)
    parts = {"latents_kept": float(len(kept))}
    if not len(kept):
        return RawScore(0.0, parts, matrix=matrix)
    codes = data.codes[:, kept]
    greatest = np.abs(codes - codes.mean(0)).max(0)
    for place, (column, discrete) in enumerate(zip(data.factors.T, data.discrete, strict=True)):
        whole = discrete and binned == CONTINUOUS
        values = column if whole else discretise(torch.from_numpy(column[:, None]), bins).numpy()[:, 0]
        matrix[kept, place] = 1 - _distance(codes, values.astype(np.int64), quantile) / greatest
    best = matrix[kept].max(1)
    return RawScore(float(np.average(best, weights=greatest)), parts, matrix=matrix)


def _distance(
    codes: Float[np.ndarray, "items latents"], values: Int[np.ndarray, "items"], quantile: float
) -> Float[np.ndarray, "latents"]:
    """The mean over values of a quantile of the distances from the mean of the items that share the value."""
    ordered = codes[np.argsort(values, kind="stable")]
    counts = np.bincount(values)
    groups = np.split(ordered, np.cumsum(counts[counts > 0])[:-1])
    found = [np.quantile(np.abs(group - group.mean(0)), quantile, axis=0) for group in groups]
    return np.asarray(np.mean(found, axis=0))
