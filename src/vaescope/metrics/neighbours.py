"""Disentanglement by nearest neighbours: how much better the best latent predicts a factor than the next.

The score of Rolinek, Zietlow and Martius (2019): each factor is predicted from each latent alone.
"""

from __future__ import annotations

from functools import partial
from typing import Unpack

import numpy as np
from jaxtyping import Float, Int

from vaescope.checks import whole_number
from vaescope.errors import DataError
from vaescope.metrics.inputs import CodesLike, FactorsLike, MetricInputs
from vaescope.metrics.registry import METRICS
from vaescope.metrics.sap import gaps
from vaescope.metrics.score import MetricOptions, RawScore, Score, evaluate

TRAIN_SHARE = 0.8  # of the items, among which neighbours are found


@METRICS.register(
    "neighbours",
    summary="does one latent predict a factor better than the next, linearly or not?",
    source="Rolinek et al. 2019, supplement B.1",
)
def neighbours(
    codes: CodesLike, factors: FactorsLike = None, *, count: int = 5, **options: Unpack[MetricOptions]
) -> Score:
    """The mean over factors of (A_1 - A_2) / N: the two best predictions from a single latent, and their scale.

    A factor is predicted by its mean, or its most frequent class, among the `count` nearest of 80% of the items, for
    the other items. A is the standard deviation less the root mean squared error, at least 0, and N the standard
    deviation; for classes A is the accuracy and N that of the best constant guess. Each factor's score lies between 0
    and 1. A single latent is compared with a constant guess. The matrix has A.

    Args:
        codes: A `Representation` or an array, items x latents.
        factors: One column for each factor. Default: those of the `Representation`.
        count: Number of neighbours.
        names, exclude, types, half_samples, scale, seed: See `MetricOptions`.
    """
    whole_number("count", count, 1)
    title = f"{count} nearest neighbours in one latent"
    return evaluate("neighbours", title, partial(_gaps, count=count), codes, factors, **options)


def _gaps(data: MetricInputs, seed: int, count: int) -> RawScore:
    first = int(TRAIN_SHARE * len(data))
    if first < count:
        raise DataError(
            f"{count} neighbours are found among {TRAIN_SHARE:.0%} of the items, which are {first} of {len(data)}. "
            "Pass more items, or lower count."
        )
    train, test = data.split(first, len(data) - first, seed)
    matrix = np.empty((data.codes.shape[1], len(data.names)))
    for latent in range(len(matrix)):
        places = nearest_on_line(train.codes[:, latent], test.codes[:, latent], count)
        for factor, discrete in enumerate(data.discrete):
            near, true = train.factors[:, factor][places], test.factors[:, factor]
            matrix[latent, factor] = np.mean(_mode(near) == true) if discrete else _explained(near, true)
    constant, unit = _constant_guess(test)
    found = (gaps(matrix, constant) / unit).clip(max=1)
    return RawScore(float(found.mean()), by_factor=tuple(found.tolist()), matrix=matrix)


def nearest_on_line(
    train: Float[np.ndarray, "train"], test: Float[np.ndarray, "test"], count: int
) -> Int[np.ndarray, "test count"]:
    """The indices of the `count` training numbers nearest to each test number; of equally near ones the lower first."""
    order = np.argsort(train, kind="stable")
    middle = np.searchsorted(train[order], test)
    # In order, the nearest lie together around the number: at most `count` of them on each side.
    window = middle[:, None] + np.arange(-count, count)
    inside = (window >= 0) & (window < len(order))
    places = order[window.clip(0, len(order) - 1)]
    distances = np.where(inside, np.abs(train[places] - test[:, None]), np.inf)
    return np.take_along_axis(places, np.argsort(distances, 1, kind="stable")[:, :count], 1)


def _mode(near: Float[np.ndarray, "test count"]) -> Float[np.ndarray, "test"]:
    """The most frequent class of each row, the lowest of equally frequent ones."""
    ordered = np.sort(near, 1)
    votes = (ordered[:, :, None] == ordered[:, None]).sum(2)
    return np.take_along_axis(ordered, votes.argmax(1)[:, None], 1)[:, 0]


def _explained(near: Float[np.ndarray, "test count"], true: Float[np.ndarray, "test"]) -> float:
    return max(0.0, float(true.std() - np.sqrt(np.mean((near.mean(1) - true) ** 2))))


def _constant_guess(test: MetricInputs) -> tuple[Float[np.ndarray, "factors"], Float[np.ndarray, "factors"]]:
    """A of the best constant guess, and N, for each factor."""
    shares = [np.unique(column, return_counts=True)[1].max() / len(test) for column in test.factors.T]
    constant = np.where(test.discrete, shares, 0.0)
    unit = np.where(test.discrete, shares, test.factors.std(0))
    for name, spread in zip(test.names, unit, strict=True):
        if spread == 0:
            raise DataError(f"{name!r} does not vary among the {len(test)} test items. Pass more items.")
    return constant, unit
