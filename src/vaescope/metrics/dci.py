"""Disentanglement, completeness and informativeness from the importances of trees (Eastwood and Williams, 2018)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Unpack

import numpy as np
import torch
from jaxtyping import Float, Int

from vaescope.errors import DataError, unknown_name
from vaescope.metrics.inputs import Labelled, learned_and_tested
from vaescope.metrics.score import Common, Measured, Score, evaluate

PROTOCOLS = ("fast", "dlib")
ROUNDS = 40
# Trees as small as scikit-learn's default ones, with no random choice. One thread: trees this small gain nothing from
# more, and lose much where cores are busy; factors are learned side by side instead.
TREES = {
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


def dci(codes: Any, factors: Any = None, *, protocol: str = "fast", **common: Unpack[Common]) -> Score:
    """Disentanglement: sum_i rho_i (1 - H_i / log factors), H_i the entropy of latent i's importances for the factors.

    rho_i is its share of all importances. The part `completeness` is the same the other way round: how far each factor
    rests on one latent (1 where there is one alone); `informativeness` is the mean accuracy. Each factor is predicted
    from all latents by boosted trees, learned from 10,000 items and tested on 5,000 others, and the matrix has the
    importances, each column of sum 1. Protocol "dlib" is scikit-learn's GradientBoostingClassifier, as in
    disentanglement_lib (whose two sets may share items of a small grid, and whose importances were others before
    scikit-learn 0.20); "fast" is LightGBM with fewer rounds on bins. It ranks representations as the other does, but
    its scores are not the same numbers: compare like with like.
    """
    if protocol not in PROTOCOLS:
        raise unknown_name("protocol", protocol, PROTOCOLS)
    importances = _light if protocol == "fast" else _library
    measure = partial(_measured, importances=importances)
    return evaluate("dci", f"boosted trees, {protocol} protocol", measure, codes, factors, **common)


def concentration(importances: Float[np.ndarray, "rows columns"]) -> float:
    """The mean over rows, weighted by their sums, of 1 - entropy / log columns; 0 where all is 0."""
    sums = importances.sum(1)
    if importances.shape[1] == 1 or not sums.any():
        return 1.0 if sums.any() else 0.0
    shares = importances[sums > 0] / sums[sums > 0, None]
    entropies = -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(1)
    return float((sums[sums > 0] / sums.sum()) @ (1 - entropies / np.log(importances.shape[1])))


def _measured(data: Labelled, seed: int, importances: Any) -> Measured:
    if len(data.names) < 2:
        raise DataError("dci asks which of several factors a latent is for, got 1. Pass at least 2.")
    _ = data.classes  # an error where a factor is continuous
    learned, tested = learned_and_tested(data, seed)
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        found = list(pool.map(lambda known: importances(learned.codes, known, tested.codes, seed), learned.classes.T))
    raw = np.column_stack([gain for gain, _ in found])
    matrix = raw / np.where(raw.sum(0) > 0, raw.sum(0), 1.0)
    accuracy = [float(np.mean(guess == true)) for (_, guess), true in zip(found, tested.classes.T, strict=True)]
    parts = {"completeness": concentration(matrix.T), "informativeness": float(np.mean(accuracy))}
    return Measured(concentration(matrix), parts, matrix=matrix)


def _light(
    learned: Float[np.ndarray, "learned latents"],
    labels: Int[np.ndarray, "learned"],
    tested: Float[np.ndarray, "tested latents"],
    seed: int,
) -> tuple[Float[np.ndarray, "latents"], Int[np.ndarray, "tested"]]:
    import lightgbm

    present, numbers = np.unique(labels, return_inverse=True)
    settings = TREES | {"num_class": len(present)}
    model = lightgbm.train(settings, lightgbm.Dataset(learned, numbers, params=settings), ROUNDS)
    guess = np.asarray(model.predict(tested, num_threads=1)).argmax(1)
    return model.feature_importance("gain"), present[guess]


def _library(
    learned: Float[np.ndarray, "learned latents"],
    labels: Int[np.ndarray, "learned"],
    tested: Float[np.ndarray, "tested latents"],
    seed: int,
) -> tuple[Float[np.ndarray, "latents"], Int[np.ndarray, "tested"]]:
    from sklearn.ensemble import GradientBoostingClassifier

    model = GradientBoostingClassifier(random_state=seed).fit(learned, labels)
    return model.feature_importances_, model.predict(tested)
