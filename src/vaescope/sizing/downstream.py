"""What codes tell about factors and labels: gradient-boosted trees on the mean representation (Bonheme, 8.5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from vaescope.data import Dataset
from vaescope.encoding import encode
from vaescope.progress import progress_bar
from vaescope.runs import FitOptions, Run

# Small trees, as in scikit-learn's exact boosting. Without the penalty, rare classes make its fast boosting diverge:
# .43 instead of .99 right answers on 10 even bins of a Gaussian code.
TREES = {"max_iter": 50, "max_leaf_nodes": 8, "min_samples_leaf": 5, "learning_rate": 0.1, "l2_regularization": 10.0}
LONG = 3e7  # trees x items to learn from, about two seconds of one core


@dataclass(frozen=True)
class Predicted:
    """The targets, the accuracy of each run and of the majority guess, as means over targets; empty without any."""

    targets: tuple[str, ...] = ()
    accuracies: tuple[float, ...] = ()
    majority: float | None = None


@dataclass(frozen=True)
class Column:
    """One target: its values for the items to learn from, and for those to be tested on."""

    learned: np.ndarray
    tested: np.ndarray

    @property
    def classes(self) -> int:
        """How many values there are to learn."""
        return len(np.unique(self.learned))

    @property
    def majority(self) -> float:
        """The share of tested items with the commonest value of those learned from."""
        values, counts = np.unique(self.learned, return_counts=True)
        return float((self.tested == values[counts.argmax()]).mean())

    def repeats(self, other: Column) -> bool:
        """Whether it holds the same values as another."""
        return np.array_equal(self.learned, other.learned) and np.array_equal(self.tested, other.tested)


def predict(runs: Sequence[Run], data: Dataset, settings: FitOptions, items: int) -> Predicted:
    """How well the means of each run predict every factor and label that varies, each on its own.

    At most `items` training items teach, and half as many of those held out of training test.
    """
    training, held_out = data.split(settings.held_out, settings.split_seed)
    learning, testing = training.draw(items), held_out.draw(items // 2)
    columns = columns_of(learning, testing)
    if not columns:
        return Predicted()
    trees = len(runs) * TREES["max_iter"] * sum(column.classes for column in columns.values())
    shown = settings.progress if trees * len(learning) > LONG else False
    accuracies = []
    with progress_bar(f"predicting {data.name}", len(runs), shown) as report:
        for done, run in enumerate(runs, 1):
            learned, tested = (_means(run, part, settings) for part in (learning, testing))
            accuracies.append(fmean(score(learned, tested, column) for column in columns.values()))
            report(done)
    return Predicted(tuple(columns), tuple(accuracies), fmean(column.majority for column in columns.values()))


def columns_of(learning: Dataset, testing: Dataset) -> dict[str, Column]:
    """The factors and labels that vary among the items to learn from."""
    columns: dict[str, Column] = {}
    if learning.factor_table is not None and learning.factors is not None and testing.factors is not None:
        tables = zip(learning.factors.numpy().T, testing.factors.numpy().T, strict=True)
        columns = {name: Column(*values) for name, values in zip(learning.factor_table.names, tables, strict=True)}
    if learning.labels is not None and testing.labels is not None:
        label = Column(learning.labels.cpu().numpy(), testing.labels.cpu().numpy())
        # Some sets give one of their factors as the label too: it counts once.
        if not any(label.repeats(column) for column in columns.values()):
            columns["label" if "label" not in columns else "class label"] = label
    return {name: column for name, column in columns.items() if column.classes > 1}


def score(learned: np.ndarray, tested: np.ndarray, column: Column) -> float:
    """The share of right answers for the tested codes, by trees that learned from the others."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    trees = HistGradientBoostingClassifier(**TREES, early_stopping=False, random_state=0)
    trees.fit(learned, column.learned)
    return float((trees.predict(tested) == column.tested).mean())


def _means(run: Run, data: Dataset, settings: FitOptions) -> np.ndarray:
    """The mean representation, without a bar of its own: bars do not nest."""
    return encode(run.model, data, device=settings.chosen_device(), progress=False).mean.numpy()
