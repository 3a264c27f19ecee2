"""Separated attribute predictability: how much better the best latent predicts a factor (Kumar et al., 2018)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Unpack

import numpy as np
from jaxtyping import Float, Int

from vaescope.metrics.inputs import CodesLike, FactorsLike, MetricInputs, train_test_split
from vaescope.metrics.linear_svm import classify
from vaescope.metrics.mcc import absolute_correlations
from vaescope.metrics.registry import METRICS
from vaescope.metrics.score import MetricOptions, RawScore, Score, evaluate
from vaescope.registry import lookup

COST = 0.01  # weight of the errors, relative to the squared norm of the weights

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
        codes: A `Representation` or an array, items x latents.
        factors: One column for each factor. Default: those of the `Representation`.
        protocol: How the support vector machines are solved (cost .01, balanced classes, as in disentanglement_lib):
            "fast" by Newton's method on sums over sorted items, "dlib" by scikit-learn's LinearSVC.
        names, exclude, types, half_samples, scale, seed: See `MetricOptions`.
    """
    measure = partial(_gaps, classifier=lookup(PROTOCOLS, protocol, "protocol"))
    text = f"linear classifiers of one latent, {protocol} protocol"
    return evaluate("sap", text, measure, codes, factors, **options)


def gaps(
    matrix: Float[np.ndarray, "latents factors"], constant: Float[np.ndarray, "factors"]
) -> Float[np.ndarray, "factors"]:
    """The best latent's score less the next one's, for each factor; for a single latent, less a constant guess's."""
    ordered = np.sort(matrix, 0)
    return np.asarray(ordered[-1] - ordered[-2] if len(matrix) > 1 else (matrix[0] - constant).clip(min=0))


def _gaps(data: MetricInputs, seed: int, classifier: Classifier) -> RawScore:
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
    found = gaps(matrix, constant)
    return RawScore(float(found.mean()), by_factor=tuple(found.tolist()), matrix=matrix)


def _sklearn_classify(values: Values, labels: Labels, test: Values) -> Labels:
    from sklearn.svm import LinearSVC

    machine = LinearSVC(C=COST, class_weight="balanced", dual=False)
    return np.asarray(machine.fit(values[:, None], labels).predict(test[:, None]))


PROTOCOLS: dict[str, Classifier] = {"fast": partial(classify, cost=COST), "dlib": _sklearn_classify}
