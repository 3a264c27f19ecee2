"""Metrics of factors found in single latents: SAP, nearest neighbours, and the mean correlation coefficient."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Unpack

import numpy as np
from jaxtyping import Float, Int

from vaescope.checks import whole_number
from vaescope.codes import CodesLike
from vaescope.errors import DataError, unknown_name
from vaescope.metrics.inputs import FactorsLike, MetricInputs, train_test_split
from vaescope.metrics.linear_svm import classify
from vaescope.metrics.score import METRICS, MetricOptions, RawScore, Score, evaluate
from vaescope.numerics.correlation import cross_correlations
from vaescope.registry import lookup

SVM_COST = 0.01  # weight of the errors, relative to the squared norm of the weights
NEIGHBOURS_TRAIN_SHARE = 0.8  # of the items, among which neighbours are found
CORRELATIONS = ("pearson", "spearman")

Values = Float[np.ndarray, "items"]
Labels = Int[np.ndarray, "items"]
# From training values of one latent, their classes and test values to predicted classes.
Classifier = Callable[[Values, Labels, Values], Labels]


@METRICS.register("sap", summary="does one latent predict a factor better than the next?", source="Kumar et al. 2018")
def sap(
    codes: CodesLike, factors: FactorsLike = None, *, protocol: str = "fast", **options: Unpack[MetricOptions]
) -> Score:
    """The mean over factors of the gap between the two latents that each predict it best alone.

    A factor of whole numbers is predicted by one-vs-rest linear support vector machines, trained on 10,000 items; its
    prediction is scored by the accuracy on 5,000 others. For a continuous factor it is the squared correlation over all
    items. A single latent is compared with a constant guess. The matrix has the score of each latent for each factor.

    Args:
        protocol: How the support vector machines are solved (cost .01, balanced classes, as in disentanglement_lib):
            "fast" by Newton's method on sums over sorted items, "dlib" by scikit-learn's LinearSVC.
        codes, factors, options: As in `evaluate`.
    """
    measure = partial(_accuracy_gaps, classifier=lookup(SVM_PROTOCOLS, protocol, "protocol"))
    text = f"linear classifiers of one latent, {protocol} protocol"
    return evaluate("sap", text, measure, codes, factors, **options)


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
    the other items. A is the standard deviation minus the root mean squared error, at least 0, and N the standard
    deviation; for classes A is the accuracy and N that of the best constant guess. Each factor's score lies between 0
    and 1. A single latent is compared with a constant guess. The matrix has A.

    Args:
        count: Number of neighbours.
        codes, factors, options: As in `evaluate`.
    """
    whole_number("count", count, 1)
    title = f"{count} nearest neighbours in one latent"
    return evaluate("neighbours", title, partial(_neighbour_gaps, count=count), codes, factors, **options)


@METRICS.register(
    "mcc", summary="does each source have a latent that correlates with it?", source="Hyvärinen and Morioka 2016"
)
def mcc(
    codes: CodesLike, sources: FactorsLike = None, *, correlation: str = "pearson", **options: Unpack[MetricOptions]
) -> Score:
    """The mean absolute correlation of each source with its latent, under the best one-to-one matching.

    With fewer latents than sources, unmatched sources count 0. The matrix has all absolute correlations.

    Args:
        sources: One column for each source. Default: the factors of the `Representation`.
        correlation: "pearson", or "spearman" to find sources up to a monotone function.
        codes, options: As in `evaluate`.
    """
    if correlation not in CORRELATIONS:
        raise unknown_name("correlation", correlation, CORRELATIONS)
    measure = partial(_matched, ranked=correlation == "spearman")
    title = f"{correlation} correlation, best matching"
    return evaluate("mcc", title, measure, codes, sources, argument="sources", **options)


def _gaps(
    matrix: Float[np.ndarray, "latents factors"], constant: Float[np.ndarray, "factors"]
) -> Float[np.ndarray, "factors"]:
    """The best latent's score less the next one's, for each factor; for a single latent, less a constant guess's."""
    ordered = np.sort(matrix, 0)
    return np.asarray(ordered[-1] - ordered[-2] if len(matrix) > 1 else (matrix[0] - constant).clip(min=0))


def _accuracy_gaps(data: MetricInputs, seed: int, classifier: Classifier) -> RawScore:
    matrix = absolute_correlations(data.codes, data.factors) ** 2
    constant = np.zeros(len(data.names))
    if any(data.discrete):
        train, test = train_test_split(data, seed)
        for place, factor in enumerate(np.flatnonzero(data.discrete)):
            true = test.classes[:, place]
            constant[factor] = np.bincount(true).max() / len(true)
            for latent in range(len(matrix)):
                guess = classifier(train.codes[:, latent], train.classes[:, place], test.codes[:, latent])
                matrix[latent, factor] = np.mean(guess == true)
    found = _gaps(matrix, constant)
    return RawScore(float(found.mean()), by_factor=tuple(found.tolist()), matrix=matrix)


def _sklearn_classify(values: Values, labels: Labels, test: Values) -> Labels:
    from sklearn.svm import LinearSVC

    machine = LinearSVC(C=SVM_COST, class_weight="balanced", dual=False)
    return np.asarray(machine.fit(values[:, None], labels).predict(test[:, None]))


SVM_PROTOCOLS: dict[str, Classifier] = {"fast": partial(classify, cost=SVM_COST), "dlib": _sklearn_classify}


def _neighbour_gaps(data: MetricInputs, seed: int, count: int) -> RawScore:
    first = int(NEIGHBOURS_TRAIN_SHARE * len(data))
    if first < count:
        raise DataError(
            f"{count} neighbours are found among {NEIGHBOURS_TRAIN_SHARE:.0%} of the items, which are {first} of "
            f"{len(data)}. Pass more items, or lower count."
        )
    train, test = data.split(first, len(data) - first, seed)
    matrix = np.empty((data.codes.shape[1], len(data.names)))
    for latent in range(len(matrix)):
        places = nearest_on_line(train.codes[:, latent], test.codes[:, latent], count)
        for factor, discrete in enumerate(data.discrete):
            near, true = train.factors[:, factor][places], test.factors[:, factor]
            if discrete:
                matrix[latent, factor] = np.mean(_mode(near) == true)
            else:
                matrix[latent, factor] = max(0.0, true.std() - np.sqrt(np.mean((near.mean(1) - true) ** 2)))
    shares = [np.unique(column, return_counts=True)[1].max() / len(test) for column in test.factors.T]
    scale = np.where(test.discrete, shares, test.factors.std(0))
    for name, spread in zip(test.names, scale, strict=True):
        if spread == 0:
            raise DataError(f"{name!r} does not vary among the {len(test)} test items. Pass more items.")
    found = (_gaps(matrix, np.where(test.discrete, shares, 0.0)) / scale).clip(max=1)
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


def absolute_correlations(
    codes: Float[np.ndarray, "items latents"], sources: Float[np.ndarray, "items sources"]
) -> Float[np.ndarray, "latents sources"]:
    """|r| of each latent with each source; 0 where one of them is constant."""
    return np.asarray(np.abs(cross_correlations(codes, sources)))


def _matched(data: MetricInputs, seed: int, ranked: bool) -> RawScore:
    from scipy.optimize import linear_sum_assignment
    from scipy.stats import rankdata

    codes, sources = (rankdata(part, axis=0) if ranked else part for part in (data.codes, data.values))
    matrix = absolute_correlations(codes, sources)
    latents, places = linear_sum_assignment(matrix, maximize=True)
    found = np.zeros(matrix.shape[1])
    found[places] = matrix[latents, places]
    return RawScore(float(found.mean()), by_factor=tuple(found.tolist()), matrix=matrix)
