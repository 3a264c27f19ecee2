"""Whether a latent is about one factor alone, and whether factors can be decoded (Ridgeway and Mozer, 2018)."""

from __future__ import annotations

from functools import partial
from typing import Unpack

import numpy as np
from jaxtyping import Bool, Float, Int

from vaescope.errors import DataError
from vaescope.metrics.inputs import CodesLike, FactorsLike, MetricInputs, standardise, train_test_split
from vaescope.metrics.mig import information_matrix
from vaescope.metrics.registry import METRICS
from vaescope.metrics.score import MetricOptions, RawScore, Score, evaluate
from vaescope.numerics.information import BINS

CHANCE_AREA = 0.5  # area under the ROC curve of a guess
MAX_ITERATIONS = 1_000


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
    measure = partial(_modularity, bins=bins)
    return evaluate("modularity", f"{bins} bins of equal width", measure, codes, factors, **options)


@METRICS.register("explicitness", summary="is each class linearly decodable?", source="Ridgeway and Mozer 2018")
def explicitness(codes: CodesLike, factors: FactorsLike = None, **options: Unpack[MetricOptions]) -> Score:
    """The mean area under the ROC curve of each class, predicted by logistic regression from all latents.

    One regression over all classes of a factor, as in disentanglement_lib, learns from 10,000 items and is tested on
    5,000 others; areas are averaged over classes, then over factors. Latents are standardised first (not in
    disentanglement_lib), so that their scale does not matter. The part `above_chance` is 0 at an area of .5 and 1 at 1;
    `classes_left_out` counts classes without an example in one of the two sets.

    Args:
        codes: A `Representation` or an array, items x latents.
        factors: One column of classes for each factor. Default: those of the `Representation`.
        names, exclude, types, half_samples, scale, seed: See `MetricOptions`.
    """
    return evaluate("explicitness", "logistic regression, area of each class", _explicitness, codes, factors, **options)


def _modularity(data: MetricInputs, seed: int, bins: int) -> RawScore:
    if len(data.names) < 2:
        raise DataError("modularity compares several factors, got 1. Pass at least 2.")
    matrix = information_matrix(data, bins)[0]
    squares = matrix[matrix.max(1) > 0] ** 2
    best = squares.max(1, initial=0)
    by_latent = 1 - (squares.sum(1) - best) / (best * (len(data.names) - 1))
    parts = {"uninformative": float(len(matrix) - len(squares))}
    return RawScore(float(by_latent.mean()) if len(by_latent) else 0.0, parts, matrix=matrix)


def _explicitness(data: MetricInputs, seed: int) -> RawScore:
    _ = data.classes  # raises an error for a continuous factor
    train, test = train_test_split(data, seed)
    train_rows, test_rows = standardise(train.codes, test.codes)
    areas, left_out = [], 0
    for name, known, true in zip(data.names, train.classes.T, test.classes.T, strict=True):
        both = np.intersect1d(known, true)
        usable = [label for label in both if 0 < (true == label).sum() < len(true)]
        if not usable:
            raise DataError(f"no class of {name!r} has examples both to learn from and to test on. Pass more items.")
        left_out += len(np.union1d(known, true)) - len(usable)
        probabilities = _probabilities(train_rows, known, test_rows)
        areas.append(float(np.mean([roc_area(probabilities[label], true == label) for label in usable])))
    area = float(np.mean(areas))
    parts = {"above_chance": (area - CHANCE_AREA) / (1 - CHANCE_AREA), "classes_left_out": float(left_out)}
    return RawScore(area, parts, tuple(areas))


def _probabilities(
    train: Float[np.ndarray, "train latents"], labels: Int[np.ndarray, "train"], test: Float[np.ndarray, "test latents"]
) -> dict[int, Float[np.ndarray, "test"]]:
    """The probability of each class, for every test item."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=MAX_ITERATIONS).fit(train, labels)
    return dict(zip(model.classes_.tolist(), model.predict_proba(test).T, strict=True))


def roc_area(scores: Float[np.ndarray, "test"], positive: Bool[np.ndarray, "test"]) -> float:
    """The share of pairs of a positive and a negative that the scores order correctly; equal scores count half."""
    from scipy.stats import rankdata

    count = int(positive.sum())
    above = rankdata(scores)[positive].sum() - count * (count + 1) / 2
    return float(above / (count * (len(positive) - count)))
