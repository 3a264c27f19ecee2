"""Metrics of the mutual information between latents and factors: MIG, MIG-sup and modularity."""

from __future__ import annotations

from functools import partial
from typing import Unpack

import numpy as np
import torch
from jaxtyping import Float

from vaescope.errors import DataError
from vaescope.metrics.inputs import CodesLike, FactorsLike, MetricInputs
from vaescope.metrics.score import METRICS, MetricOptions, RawScore, Score, evaluate
from vaescope.numerics.information import BINS, discretise, entropy, mutual_information


@METRICS.register(
    "mig", summary="does one latent hold more information about a factor than the next?", source="Chen et al. 2018"
)
def mig(codes: CodesLike, factors: FactorsLike = None, *, bins: int = BINS, **options: Unpack[MetricOptions]) -> Score:
    """The mean over factors of (I_1 - I_2) / H: the two largest mutual informations with a latent, and the entropy.

    All items count (10,000 in disentanglement_lib); more items make the score of noise smaller. The matrix has the
    mutual information of each latent and each factor, in nats.

    Args:
        bins: Number of bins of equal width, for latents and continuous factors.
        codes, factors, options: As in `evaluate`.
    """
    return evaluate("mig", _estimator(bins), partial(_gaps, bins=bins, axis=0), codes, factors, **options)


@METRICS.register(
    "mig_sup", summary="does a latent hold more information about one factor than the next?", source="Li et al. 2020"
)
def mig_sup(
    codes: CodesLike, factors: FactorsLike = None, *, bins: int = BINS, **options: Unpack[MetricOptions]
) -> Score:
    """The mean over latents of the gap between the two factors it knows most about (Li et al., 2020).

    Each mutual information is divided by the factor's entropy. With one factor there is no second to compare with, and
    the score is the mutual information itself. The arguments are those of `mig`.
    """
    return evaluate("mig_sup", _estimator(bins), partial(_gaps, bins=bins, axis=1), codes, factors, **options)


@METRICS.register(
    "modularity",
    summary="does a latent hold information about one factor alone?",
    source="Ridgeway and Mozer 2018",
    factors=2,
)
def modularity(
    codes: CodesLike, factors: FactorsLike = None, *, bins: int = BINS, **options: Unpack[MetricOptions]
) -> Score:
    """The mean over latents of 1 - (sum of I^2 over all factors but its best) / (I_best^2 (factors - 1)).

    I is the mutual information of the latent and a factor; the matrix has it, in nats. Latents without information are
    left out of the mean, and the part `uninformative` counts them (in disentanglement_lib each counts 0). With no other
    latents the score is 0. The arguments are those of `mig`.
    """
    return evaluate("modularity", _estimator(bins), partial(_modularity, bins=bins), codes, factors, **options)


def information_matrix(
    data: MetricInputs, bins: int
) -> tuple[Float[np.ndarray, "latents factors"], Float[np.ndarray, "factors"]]:
    """The mutual information of each latent and each factor, and the entropy of each factor, in nats."""
    binned = discretise(torch.from_numpy(data.codes), bins).numpy().astype(np.int64)
    columns = [
        column.astype(np.int64) if kind else discretise(torch.from_numpy(column[:, None]), bins).numpy()[:, 0]
        for column, kind in zip(data.factors.T, data.discrete, strict=True)
    ]
    matrix = np.empty((binned.shape[1], len(columns)))
    entropies = np.empty(len(columns))
    for place, column in enumerate(columns):
        values = int(column.max()) + 1
        counts = [np.bincount(latent * values + column, minlength=bins * values) for latent in binned.T]
        joint = torch.from_numpy(np.stack(counts).reshape(-1, bins, values))
        matrix[:, place] = mutual_information(joint).numpy()
        entropies[place] = float(entropy(joint[0].sum(0)))
    return matrix, entropies


def _estimator(bins: int) -> str:
    return f"{bins} bins of equal width"


def _gaps(data: MetricInputs, seed: int, bins: int, axis: int) -> RawScore:
    matrix, entropies = information_matrix(data, bins)
    shares = matrix / entropies
    ordered = np.sort(shares, axis)
    first = np.take(ordered, -1, axis)
    gaps = first - np.take(ordered, -2, axis) if shares.shape[axis] > 1 else first
    by_factor = tuple(gaps.tolist()) if axis == 0 else None
    return RawScore(float(gaps.mean()), by_factor=by_factor, matrix=matrix)


def _modularity(data: MetricInputs, seed: int, bins: int) -> RawScore:
    if len(data.names) < 2:
        raise DataError("modularity compares several factors, got 1. Pass at least 2.")
    matrix = information_matrix(data, bins)[0]
    squares = matrix[matrix.max(1) > 0] ** 2
    best = squares.max(1, initial=0)
    by_latent = 1 - (squares.sum(1) - best) / (best * (len(data.names) - 1))
    parts = {"uninformative": float(len(matrix) - len(squares))}
    return RawScore(float(by_latent.mean()) if len(by_latent) else 0.0, parts, matrix=matrix)
