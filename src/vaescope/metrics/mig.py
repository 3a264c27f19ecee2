"""Mutual information gap: how much more the best latent tells of a factor than the next (Chen et al., 2018)."""

from __future__ import annotations

from functools import partial
from typing import Any, Unpack

import numpy as np
import torch
from jaxtyping import Float

from vaescope.metrics.inputs import Labelled
from vaescope.metrics.score import Common, Measured, Score, evaluate
from vaescope.numerics.information import BINS, discretise, entropy, mutual_information


def mig(codes: Any, factors: Any = None, *, bins: int = BINS, **common: Unpack[Common]) -> Score:
    """The mean over factors of (I_1 - I_2) / H, I_1 and I_2 the two largest informations of a latent about it.

    Latents fall into `bins` of equal width, as in disentanglement_lib, and so do factors that are continuous. All items
    that are given count (there 10,000), and more of them make the score of noise smaller. The matrix has the
    information of each latent about each factor, in nats.
    """
    measure = partial(_gaps, bins=bins, axis=0)
    return evaluate("mig", f"{bins} bins of equal width", measure, codes, factors, **common)


def mig_sup(codes: Any, factors: Any = None, *, bins: int = BINS, **common: Unpack[Common]) -> Score:
    """The same the other way round: the mean over latents of the gap between the two factors it tells most of.

    Each information is over its factor's entropy (Li et al., 2020). Of one factor alone there is no second to compare
    with, and the score is the information itself.
    """
    measure = partial(_gaps, bins=bins, axis=1)
    return evaluate("mig_sup", f"{bins} bins of equal width", measure, codes, factors, **common)


def information_matrix(
    data: Labelled, bins: int
) -> tuple[Float[np.ndarray, "latents factors"], Float[np.ndarray, "factors"]]:
    """The information of each latent about each factor, and the entropy of each factor, in nats."""
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


def _gaps(data: Labelled, seed: int, bins: int, axis: int) -> Measured:
    matrix, entropies = information_matrix(data, bins)
    shares = matrix / entropies
    ordered = np.sort(shares, axis)
    first = np.take(ordered, -1, axis)
    gaps = first - np.take(ordered, -2, axis) if shares.shape[axis] > 1 else first
    by_factor = tuple(gaps.tolist()) if axis == 0 else None
    return Measured(float(gaps.mean()), by_factor=by_factor, matrix=matrix)
