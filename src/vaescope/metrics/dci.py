"""Disentanglement, completeness and informativeness from feature importances (Eastwood and Williams, 2018)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Unpack

import numpy as np
import torch
from jaxtyping import Float, Int

from vaescope.errors import DataError
from vaescope.metrics.inputs import CodesLike, FactorsLike, MetricInputs, train_test_split
from vaescope.metrics.registry import METRICS
from vaescope.metrics.score import MetricOptions, RawScore, Score, evaluate
from vaescope.registry import lookup

BOOSTING_ROUNDS = 40
# Trees as small as scikit-learn's default ones, with no random choice. One thread: trees this small gain nothing from
# more, and lose much on busy cores; factors are learned in parallel instead.
LIGHTGBM_SETTINGS = {
    "objective": "multiclass",
    "learning_rate": 0.1,
    "num_leaves": 8,
    "max_depth": 3,
    "max_bin": 255,
    "min_data_in_leaf": 1,
    "min_sum_hessian_in_leaf": 0.3,
    "deterministic": True,
    "force_col_wise": True,
    "num_threads": 1,
    "verbose": -1,
}

Codes = Float[np.ndarray, "items latents"]
Labels = Int[np.ndarray, "items"]
Importances = Float[np.ndarray, "latents"]
# From training codes, their classes, test codes and a seed to importances and predictions.
Trees = Callable[[Codes, Labels, Codes, int], tuple[Importances, Labels]]


@METRICS.register(
    "dci",
    summary="is a latent important for one factor alone? Parts: completeness, informativeness",
    source="Eastwood and Williams 2018",
    factors=2,
)
def dci(
    codes: CodesLike, factors: FactorsLike = None, *, protocol: str = "fast", **options: Unpack[MetricOptions]
) -> Score:
    """Disentanglement: sum_i rho_i (1 - H_i / log factors), H_i the entropy of latent i's importances for the factors.

    rho_i is its share of all importances. The part `completeness` is the same with latents and factors exchanged: how
    far each factor depends on one latent; `informativeness` is the mean accuracy. Each factor is predicted from all
    latents by boosted trees, trained on 10,000 items and tested on 5,000 others. The matrix has the importances; each
    column sums to 1.

    Args:
        codes: A `Representation` or an array, items x latents.
        factors: One column of classes for each factor. Default: those of the `Representation`.
        protocol: "dlib" is scikit-learn's GradientBoostingClassifier, as in disentanglement_lib (whose training and
            test sets may share items of a small grid). "fast" is LightGBM with fewer rounds on bins; it ranks
            representations in the same order, but its scores are other numbers: do not compare the two.
        names, exclude, types, half_samples, scale, seed: See `MetricOptions`.
    """
    measure = partial(_score, trees=lookup(PROTOCOLS, protocol, "protocol"))
    return evaluate("dci", f"boosted trees, {protocol} protocol", measure, codes, factors, **options)


def concentration(importances: Float[np.ndarray, "rows columns"]) -> float:
    """The mean over rows, weighted by their sums, of 1 - entropy / log columns; 0 if all are 0."""
    sums = importances.sum(1)
    if importances.shape[1] == 1 or not sums.any():
        return 1.0 if sums.any() else 0.0
    shares = importances[sums > 0] / sums[sums > 0, None]
    entropies = -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(1)
    return float((sums[sums > 0] / sums.sum()) @ (1 - entropies / np.log(importances.shape[1])))


def _score(data: MetricInputs, seed: int, trees: Trees) -> RawScore:
    if len(data.names) < 2:
        raise DataError("dci compares several factors, got 1. Pass at least 2.")
    _ = data.classes  # raises an error for a continuous factor
    train, test = train_test_split(data, seed)
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        found = list(pool.map(lambda labels: trees(train.codes, labels, test.codes, seed), train.classes.T))
    raw = np.column_stack([gain for gain, _ in found])
    matrix = raw / np.where(raw.sum(0) > 0, raw.sum(0), 1.0)
    accuracy = [float(np.mean(guess == true)) for (_, guess), true in zip(found, test.classes.T, strict=True)]
    parts = {"completeness": concentration(matrix.T), "informativeness": float(np.mean(accuracy))}
    return RawScore(concentration(matrix), parts, matrix=matrix)


def _lightgbm_trees(train: Codes, labels: Labels, test: Codes, seed: int) -> tuple[Importances, Labels]:
    import lightgbm

    present, numbers = np.unique(labels, return_inverse=True)
    settings = LIGHTGBM_SETTINGS | {"num_class": len(present)}
    model = lightgbm.train(settings, lightgbm.Dataset(train, numbers, params=settings), BOOSTING_ROUNDS)
    guess = np.asarray(model.predict(test, num_threads=1)).argmax(1)
    return model.feature_importance("gain"), present[guess]


def _sklearn_trees(train: Codes, labels: Labels, test: Codes, seed: int) -> tuple[Importances, Labels]:
    from sklearn.ensemble import GradientBoostingClassifier

    model = GradientBoostingClassifier(random_state=seed).fit(train, labels)
    return model.feature_importances_, model.predict(test)


PROTOCOLS: dict[str, Trees] = {"fast": _lightgbm_trees, "dlib": _sklearn_trees}
