"""Prediction of factors and labels from latents of each type, by logistic regression (Bonheme, figure 6.4)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import numpy as np
import torch

from vaescope.checks import whole_number
from vaescope.codes import Representation
from vaescope.codes.arrays import ArrayLike, class_numbers, column_names
from vaescope.errors import DataError
from vaescope.notebook import NotebookResult
from vaescope.numerics import counter
from vaescope.numerics.variable_type_names import PASSIVE
from vaescope.progress import track
from vaescope.regime.mean_and_sampled import FULL, MEAN, SAMPLED, SampledCodes, grouped_tables
from vaescope.regime.variable_types import TypesLike
from vaescope.registry import lookup
from vaescope.tables import Row

FOLDS = 5
# Protocol -> the strengths C (inverse penalties) to try, those of scikit-learn's cross-validation.
PROTOCOLS: dict[str, tuple[float, ...]] = {"fast": (1.0,), "thesis": tuple(np.logspace(-4, 4, 10).tolist())}
PROGRESS_BAR_CLASSIFIERS = 20
MAX_ITERATIONS = 1000


@dataclass(frozen=True)
class Target:
    """A factor or label to predict.

    Attributes:
        name: The name of the factor or label.
        classes: The number of classes.
        uniform: The accuracy of a uniform guess.
        majority: The accuracy of guessing the most frequent class.
        note: Why the target cannot be predicted; empty if it can.
    """

    name: str
    classes: int
    uniform: float
    majority: float
    note: str = ""


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of one classifier on the test items.

    Attributes:
        target: The name of the target.
        representation: "mean" or "sampled".
        combination: "full", or variable types joined by "+".
        latents: The latents, by number.
        accuracy: The share of test items that are classified correctly.
        strength: The inverse penalty C.
        note: A remark on the fit.
    """

    target: str
    representation: str
    combination: str
    latents: tuple[int, ...]
    accuracy: float
    strength: float
    note: str = ""


@dataclass(frozen=True)
class Downstream(NotebookResult):
    """Accuracies for each target, representation and combination of types, with those of guesses."""

    protocol: str
    seed: int
    train_items: int
    test_items: int
    targets: tuple[Target, ...]
    entries: tuple[Accuracy, ...]

    def average(self, representation: str, combination: str = FULL) -> float | None:
        """Mean accuracy over the targets (a bar of figure 6.4); None if no latent has these types."""
        wanted = (representation, combination)
        found = [entry.accuracy for entry in self.entries if (entry.representation, entry.combination) == wanted]
        return fmean(found) if found else None

    def guess(self, kind: Literal["uniform", "majority"] = "uniform") -> float:
        """Mean accuracy of guesses over the targets."""
        known = [target for target in self.targets if not target.note]
        return fmean(target.uniform if kind == "uniform" else target.majority for target in known)

    def rows(self) -> list[Row]:
        """One row for each classifier, and one for each target that could not be predicted."""
        rows: dict[str, Row] = {}
        for target in self.targets:
            rows[target.name] = {"target": target.name, "representation": None, "combination": None, "latents": None}
            rows[target.name] |= {"accuracy": None, "uniform": target.uniform, "majority": target.majority}
            rows[target.name] |= {"classes": target.classes, "strength": None, "note": target.note}
        found = [rows[entry.target] | vars(entry) | {"latents": len(entry.latents)} for entry in self.entries]
        return found + [rows[target.name] for target in self.targets if target.note]

    def summary(self) -> str:
        """Accuracies of all latents and of the passive latents, and those of guesses."""
        parts = []
        for name in (MEAN, SAMPLED):
            passive = self.average(name, PASSIVE)
            of_passive = "" if passive is None else f" (passive latents {passive:.3g})"
            parts.append(f"{self.average(name):.3g} from the {name} codes{of_passive}")
        left_out = sum(bool(target.note) for target in self.targets)
        omitted = f"; {left_out} of {len(self.targets)} targets could not be predicted" if left_out else ""
        guesses = f"uniform guess {self.guess():.3g}, majority guess {self.guess('majority'):.3g}"
        return f"Accuracy of a logistic regression: {', '.join(parts)}; {guesses}{omitted}."


def downstream(
    codes: SampledCodes,
    types: TypesLike,
    targets: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
    protocol: str = "fast",
    seed: int = 0,
    train_items: int = 10_000,
    test_items: int = 5_000,
) -> Downstream:
    """Train a classifier for each target, representation and combination of types (section 6.4.1, sanity check).

    Latents are scaled to unit variance and folds are stratified; the thesis' code does neither.

    Args:
        codes, types: As in `mean_and_sampled`.
        targets: Whole numbers from 0, items x targets. Default: the factors and labels of `codes`.
        names: Names of the targets. Default: the columns of a data frame, or "target 0", "factor 0", ...
        protocol: "fast" has one strength; "thesis" chooses among 10 by cross-validation in 5 folds.
        seed: Random seed of the split and the folds.
        train_items, test_items: The maximum numbers of items; with too few for both, two thirds are for training.
    """
    strengths = lookup(PROTOCOLS, protocol, "protocol")
    seed = whole_number("seed", seed, 0, 2**32 - 1)
    whole_number("train_items", train_items, 2)
    whole_number("test_items", test_items, 1)
    tables, _, groups = grouped_tables(codes, types)
    items = len(tables[MEAN])
    values, labels = _targets(codes, targets, names, items)
    train, test = _split(items, train_items, test_items, seed)
    least = FOLDS if len(strengths) > 1 else 2
    described = [_described(name, values[:, place], train, test, least) for place, name in enumerate(labels)]
    kept = [place for place, target in enumerate(described) if not target.note]
    if not kept:
        raise DataError(f"no target can be predicted. {described[0].note}")
    kinds = [(place, name, group) for place in kept for name in tables for group in groups]
    scored: dict[tuple[int, str, tuple[int, ...]], tuple[float, float, str]] = {}
    entries = []
    for place, name, group in track(
        kinds, "predicting from codes", len(kinds), long=len(kinds) > PROGRESS_BAR_CLASSIFIERS
    ):
        key = (place, name, groups[group])
        if key not in scored:  # with two types, both together are the full representation
            inputs = tuple(tables[name][part][:, groups[group]].double().cpu().numpy() for part in (train, test))
            scored[key] = _score(inputs, (values[train, place], values[test, place]), strengths, seed)
        entries.append(Accuracy(labels[place], name, group, groups[group], *scored[key]))
    return Downstream(protocol, seed, len(train), len(test), tuple(described), tuple(entries))


def _targets(
    codes: SampledCodes, targets: ArrayLike | None, names: Sequence[str] | None, items: int
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Targets as columns of whole numbers, and their names."""
    given: dict[str, ArrayLike | None] = {"target": targets}
    if targets is None and isinstance(codes, Representation):
        given = {"factor": codes.factors, "label": codes.labels}
    known = {what: values for what, values in given.items() if values is not None}
    if not known:
        raise DataError("codes must have factors or labels to predict, got neither. Pass targets, items x targets.")
    columns, labels = [], []
    for what, values in known.items():
        table = class_numbers(values, items, "codes", f"{what}s", (1, 2))
        table = table.reshape(items, -1)
        columns.append(table)
        labels += [what] if table.shape[1] == 1 else [f"{what} {place}" for place in range(table.shape[1])]
    names = column_names(targets) if names is None else names
    labels = labels if names is None else [str(name) for name in names]
    found = sum(table.shape[1] for table in columns)
    if len(labels) != found or len(set(labels)) != found:
        raise DataError(f"names must be {found} different names, one per target; got {labels}.")
    return np.concatenate(columns, axis=1), tuple(labels)


def _split(items: int, train: int, test: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the training and of the test items."""
    if items < 3:
        raise DataError(f"training and test sets need at least 3 items, got {items}. Encode more items.")
    if items < train + test:
        train, test = min(train, 2 * items // 3), min(test, items - 2 * items // 3)
    order = counter.permutation(torch.tensor(seed), "downstream", torch.tensor(0), items).numpy()
    return order[:train], order[train : train + test]


def _described(name: str, values: np.ndarray, train: np.ndarray, test: np.ndarray, least: int) -> Target:
    """The target with the accuracies of guesses, and the reason if it cannot be predicted."""
    classes, counts = np.unique(values, return_counts=True)
    in_training = np.array([(values[train] == kind).sum() for kind in classes])
    majority = float((values[test] == classes[in_training.argmax()]).mean())
    note = ""
    rare = int(in_training.argmin())
    if len(classes) < 2:
        note = f"{name} is {classes[0]} for all items: there is nothing to predict."
    elif in_training[rare] < least:
        note = (
            f"{name} must have at least {least} training items of each class, got {in_training[rare]} of class "
            f"{classes[rare]} ({counts[rare]} of {len(values)} items). Encode more items, or merge classes."
        )
    return Target(name, len(classes), 1 / len(classes), majority, note)


def _score(
    inputs: tuple[np.ndarray, ...], answers: tuple[np.ndarray, ...], strengths: tuple[float, ...], seed: int
) -> tuple[float, float, str]:
    """Accuracy on the test items, the chosen strength, and a note if the fit did not converge."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(C=strengths[0], max_iter=MAX_ITERATIONS))
    name = "logisticregression"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the note says so
        if len(strengths) > 1:
            folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
            search = GridSearchCV(model, {f"{name}__C": list(strengths)}, cv=folds).fit(inputs[0], answers[0])
            model = search.best_estimator_
        else:
            model.fit(inputs[0], answers[0])
    converged = int(np.max(model[-1].n_iter_)) < MAX_ITERATIONS
    note = "" if converged else f"The fit did not converge in {MAX_ITERATIONS} iterations."
    return float((model.predict(inputs[1]) == answers[1]).mean()), float(model[-1].C), note
