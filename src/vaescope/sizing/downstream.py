"""Factors and labels predicted from mean codes by gradient-boosted trees (Bonheme, section 8.5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import torch

from vaescope.data import Dataset
from vaescope.encoding import encode
from vaescope.progress import progress_bar
from vaescope.runs import Run
from vaescope.runs.options import choose_device

# Small trees, as in scikit-learn's exact boosting. Without the penalty, rare classes make its fast boosting diverge:
# accuracy 0.43 instead of 0.99 on 10 even bins of a Gaussian code.
TREES = {"max_iter": 50, "max_leaf_nodes": 8, "min_samples_leaf": 5, "learning_rate": 0.1, "l2_regularization": 10.0}
LONG_TASK = 3e7  # trees x training items, about two seconds on one core


@dataclass(frozen=True)
class Prediction:
    """The targets, the mean accuracy of each run over them, and that of the majority class; empty without targets."""

    targets: tuple[str, ...] = ()
    accuracies: tuple[float, ...] = ()
    majority: float | None = None


@dataclass(frozen=True)
class PredictionTarget:
    """A factor or label: its values for the training and the test items."""

    learned: np.ndarray
    tested: np.ndarray

    @property
    def classes(self) -> int:
        """Number of distinct values in training."""
        return len(np.unique(self.learned))

    @property
    def majority(self) -> float:
        """Share of test items with the most frequent value of the training items."""
        values, counts = np.unique(self.learned, return_counts=True)
        return float((self.tested == values[counts.argmax()]).mean())

    def repeats(self, other: PredictionTarget) -> bool:
        """Whether both hold the same values."""
        return np.array_equal(self.learned, other.learned) and np.array_equal(self.tested, other.tested)


def predict(
    runs: Sequence[Run],
    learning: Dataset,
    testing: Dataset,
    *,
    device: str | torch.device | None = None,
    progress: bool | None = None,
) -> Prediction:
    """Predict each varying factor and label from the mean codes of each run.

    Args:
        learning: Items to train the predictors on.
        testing: Items to test them on.
    """
    targets = targets_of(learning, testing)
    if not targets:
        return Prediction()
    trees = len(runs) * TREES["max_iter"] * sum(target.classes for target in targets.values())
    shown = progress if trees * len(learning) > LONG_TASK else False
    chosen, accuracies = choose_device(device), []
    with progress_bar(f"predicting factors of {learning.name}", len(runs), shown, unit="models") as report:
        for done, run in enumerate(runs, 1):
            learned, tested = (
                encode(run.model, part, device=chosen, progress=False).mean.numpy() for part in (learning, testing)
            )
            accuracies.append(fmean(score(learned, tested, target) for target in targets.values()))
            report(done)
    return Prediction(tuple(targets), tuple(accuracies), fmean(target.majority for target in targets.values()))


def targets_of(learning: Dataset, testing: Dataset) -> dict[str, PredictionTarget]:
    """The factors and labels that vary among the training items."""
    targets: dict[str, PredictionTarget] = {}
    if learning.factor_table is not None and learning.factors is not None and testing.factors is not None:
        tables = zip(learning.factors.numpy().T, testing.factors.numpy().T, strict=True)
        targets = {
            name: PredictionTarget(*values) for name, values in zip(learning.factor_table.names, tables, strict=True)
        }
    if learning.labels is not None and testing.labels is not None:
        label = PredictionTarget(learning.labels.cpu().numpy(), testing.labels.cpu().numpy())
        # Some data sets repeat one of their factors as the label.
        if not any(label.repeats(target) for target in targets.values()):
            targets["label" if "label" not in targets else "class label"] = label
    return {name: target for name, target in targets.items() if target.classes > 1}


def score(learned: np.ndarray, tested: np.ndarray, target: PredictionTarget) -> float:
    """Accuracy of gradient-boosted trees on the test codes."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    trees = HistGradientBoostingClassifier(**TREES, early_stopping=False, random_state=0)
    trees.fit(learned, target.learned)
    return float((trees.predict(tested) == target.tested).mean())
