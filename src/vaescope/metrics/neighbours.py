"""Disentanglement by nearest neighbours: how much better the best latent predicts a factor than the next.

The score of Rolinek, Zietlow and Martius (2019): each factor is predicted from each latent alone.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Unpack

import numpy as np
from jaxtyping import Float, Int

from vaescope.checks import whole_number
from vaescope.errors import DataError
from vaescope.metrics.inputs import Labelled
from vaescope.metrics.sap import gaps
from vaescope.metrics.score import Common, Measured, Score, evaluate

NEIGHBOURS = 5
LEARNED = 0.8  # share of the items among which neighbours are sought


def neighbours(codes: Any, factors: Any = None, *, count: int = NEIGHBOURS, **common: Unpack[Common]) -> Score:
    """The mean over factors of (A_1 - A_2) / N, A_1 and A_2 the two best predictions of it from a single latent.

    A factor is predicted by its mean, or its most frequent class, among the `count` items nearest in one latent, of 80%
    of the items for the others. A is the standard deviation less the root mean squared error, at least 0, and N the
    standard deviation; for classes A is the accuracy and N that of the best constant guess. Each factor's score lies
    within 0 and 1. A latent alone is compared with a constant guess. The matrix has A.
    """
    nearest = whole_number("count", count, 1)
    measure = partial(_gaps, count=nearest)
    return evaluate("neighbours", f"{nearest} nearest neighbours in one latent", measure, codes, factors, **common)


def _gaps(data: Labelled, seed: int, count: int) -> Measured:
    first = int(LEARNED * len(data))
    if first < count:
        raise DataError(
            f"{count} neighbours are sought among {LEARNED:.0%} of the items, which are {first} of {len(data)}. "
            "Pass more items, or lower count."
        )
    learned, tested = data.split(first, len(data) - first, seed)
    matrix = np.empty((data.codes.shape[1], len(data.names)))
    for latent in range(len(matrix)):
        places = nearest_in_order(learned.codes[:, latent], tested.codes[:, latent], count)
        for factor, discrete in enumerate(data.discrete):
            near, true = learned.factors[:, factor][places], tested.factors[:, factor]
            matrix[latent, factor] = np.mean(_mode(near) == true) if discrete else _explained(near, true)
    constant, unit = _of_constants(tested)
    found = (gaps(matrix, constant) / unit).clip(max=1)
    return Measured(float(found.mean()), by_factor=tuple(found.tolist()), matrix=matrix)


def nearest_in_order(
    learned: Float[np.ndarray, "learned"], tested: Float[np.ndarray, "tested"], count: int
) -> Int[np.ndarray, "tested count"]:
    """The places of the `count` learned numbers nearest to each tested one; of equally near ones the lower first."""
    order = np.argsort(learned, kind="stable")
    middle = np.searchsorted(learned[order], tested)
    # In order, the nearest lie together around the number: at most `count` of them on each side.
    window = middle[:, None] + np.arange(-count, count)
    inside = (window >= 0) & (window < len(order))
    places = order[window.clip(0, len(order) - 1)]
    distances = np.where(inside, np.abs(learned[places] - tested[:, None]), np.inf)
    return np.take_along_axis(places, np.argsort(distances, 1, kind="stable")[:, :count], 1)


def _mode(near: Float[np.ndarray, "tested count"]) -> Float[np.ndarray, "tested"]:
    """The most frequent class of each row, the lowest of equally frequent ones."""
    ordered = np.sort(near, 1)
    votes = (ordered[:, :, None] == ordered[:, None]).sum(2)
    return np.take_along_axis(ordered, votes.argmax(1)[:, None], 1)[:, 0]


def _explained(near: Float[np.ndarray, "tested count"], true: Float[np.ndarray, "tested"]) -> float:
    return max(0.0, float(true.std() - np.sqrt(np.mean((near.mean(1) - true) ** 2))))


def _of_constants(tested: Labelled) -> tuple[Float[np.ndarray, "factors"], Float[np.ndarray, "factors"]]:
    """A of the best constant guess, and N, for each factor."""
    shares = [np.unique(column, return_counts=True)[1].max() / len(tested) for column in tested.factors.T]
    constant = np.where(tested.discrete, shares, 0.0)
    unit = np.where(tested.discrete, shares, tested.factors.std(0))
    for name, spread in zip(tested.names, unit, strict=True):
        if spread == 0:
            raise DataError(f"{name!r} does not vary among the {len(tested)} items kept for testing. Pass more items.")
    return constant, unit
