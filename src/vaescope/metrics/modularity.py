"""Whether a latent tells of one factor alone, and whether factors can be read off (Ridgeway and Mozer, 2018)."""

from __future__ import annotations

from functools import partial
from typing import Any, Unpack

import numpy as np
from jaxtyping import Float, Int

from vaescope.errors import DataError
from vaescope.metrics.inputs import Labelled, learned_and_tested
from vaescope.metrics.mig import information_matrix
from vaescope.metrics.score import Common, Measured, Score, evaluate
from vaescope.numerics.information import BINS

CHANCE = 0.5  # the area under the curve of a guess


def modularity(codes: Any, factors: Any = None, *, bins: int = BINS, **common: Unpack[Common]) -> Score:
    """The mean over latents of 1 - (sum of I^2 of all factors but its best) / (I_best^2 (factors - 1)).

    I is the information of the latent about a factor, from `bins` of equal width; the matrix has it, in nats. A latent
    that tells of no factor has no share in the mean; the part `uninformative` counts them (disentanglement_lib lets
    each count 0 instead). Without any that tells the score is 0.
    """
    return evaluate(
        "modularity", f"{bins} bins of equal width", partial(_modularity, bins=bins), codes, factors, **common
    )


def explicitness(codes: Any, factors: Any = None, **common: Unpack[Common]) -> Score:
    """The mean area under the ROC curve of each class's probability, by logistic regression from all latents.

    One regression over all classes of a factor, as in disentanglement_lib, learns from 10,000 items and is tested on
    5,000 others; areas are averaged over its classes, then over factors. Latents are standardised first, which is not
    done there, so that their scale says nothing. The part `above_chance` is 0 at an area of .5 and 1 at 1;
    `classes_left_out` counts those that chance left without an example in one of the two sets.
    """
    return evaluate("explicitness", "logistic regression, area of each class", _explicitness, codes, factors, **common)


def _modularity(data: Labelled, seed: int, bins: int) -> Measured:
    if len(data.names) < 2:
        raise DataError("modularity compares what a latent tells of several factors, got 1. Pass at least 2.")
    matrix = information_matrix(data, bins)[0]
    squares = matrix[matrix.max(1) > 0] ** 2
    best = squares.max(1, initial=0)
    by_latent = 1 - (squares.sum(1) - best) / (best * (len(data.names) - 1))
    parts = {"uninformative": float(len(matrix) - len(squares))}
    return Measured(float(by_latent.mean()) if len(by_latent) else 0.0, parts, matrix=matrix)


def _explicitness(data: Labelled, seed: int) -> Measured:
    _ = data.classes  # an error where a factor is continuous
    learned, tested = learned_and_tested(data, seed)
    mean, spread = learned.codes.mean(0), learned.codes.std(0)
    spread = np.where(spread > 0, spread, 1.0)
    known_rows, true_rows = ((part.codes - mean) / spread for part in (learned, tested))
    areas, left_out = [], 0
    for name, known, true in zip(data.names, learned.classes.T, tested.classes.T, strict=True):
        both = np.intersect1d(known, true)
        usable = [label for label in both if 0 < (true == label).sum() < len(true)]
        if not usable:
            raise DataError(f"no class of {name!r} has examples both to learn from and to test on. Pass more items.")
        left_out += len(np.union1d(known, true)) - len(usable)
        chances = _chances(known_rows, known, true_rows)
        areas.append(float(np.mean([_area(chances[label], true == label) for label in usable])))
    area = float(np.mean(areas))
    parts = {"above_chance": (area - CHANCE) / (1 - CHANCE), "classes_left_out": float(left_out)}
    return Measured(area, parts, tuple(areas))


def _chances(
    learned: Float[np.ndarray, "learned latents"],
    labels: Int[np.ndarray, "learned"],
    tested: Float[np.ndarray, "tested latents"],
) -> dict[int, Float[np.ndarray, "tested"]]:
    """The probability of each class, for every tested item."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=1000).fit(learned, labels)
    return dict(zip(model.classes_.tolist(), model.predict_proba(tested).T, strict=True))


def _area(scores: Float[np.ndarray, "tested"], positive: Int[np.ndarray, "tested"]) -> float:
    """The share of pairs of an example and another that the scores put in order; equal scores count half."""
    from scipy.stats import rankdata

    count = int(positive.sum())
    above = rankdata(scores)[positive].sum() - count * (count + 1) / 2
    return float(above / (count * (len(positive) - count)))
