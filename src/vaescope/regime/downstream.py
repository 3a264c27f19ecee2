"""Do the types predict what they should? A logistic regression for each type of latent (Bonheme, figure 6.4)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
import torch

from vaescope.checks import whole_number
from vaescope.codes.factors import class_numbers
from vaescope.errors import DataError, unknown_name
from vaescope.notebook import NotebookResult
from vaescope.numerics import counter
from vaescope.numerics.variable_type_names import PASSIVE
from vaescope.progress import track
from vaescope.regime.combinations import FULL, MEAN, SAMPLED, combinations, tables_of, types_of

FOLDS = 5
# Protocol -> the strengths C (inverse penalties) that are tried, those of scikit-learn's cross-validation.
PROTOCOLS: dict[str, tuple[float, ...]] = {"fast": (1.0,), "thesis": tuple(np.logspace(-4, 4, 10).tolist())}
LONG = 20  # classifiers
ITERATIONS = 1000


@dataclass(frozen=True)
class Target:
    """A factor or label to predict, and what guesses reach; `note` says why it cannot be predicted, if so."""

    name: str
    classes: int
    uniform: float
    majority: float
    note: str = ""


@dataclass(frozen=True)
class Accuracy:
    """The share of test items whose target a classifier on the latents of a combination gets right."""

    target: str
    representation: str
    combination: str
    latents: tuple[int, ...]
    accuracy: float
    strength: float
    note: str = ""


@dataclass(frozen=True)
class Downstream(NotebookResult):
    """Accuracies for each target, representation and combination of types, beside guesses."""

    protocol: str
    seed: int
    train_items: int
    test_items: int
    targets: tuple[Target, ...]
    entries: tuple[Accuracy, ...]

    def average(self, representation: str, combination: str = FULL) -> float | None:
        """Mean accuracy over the targets (the height of a bar of figure 6.4); None where no latent is so."""
        wanted = (representation, combination)
        found = [entry.accuracy for entry in self.entries if (entry.representation, entry.combination) == wanted]
        return fmean(found) if found else None

    def guess(self, kind: str = "uniform") -> float:
        """Mean accuracy over the targets of the 'uniform' or the 'majority' guess."""
        return fmean(getattr(target, kind) for target in self.targets if not target.note)

    def rows(self) -> list[dict[str, Any]]:
        """One flat row for each classifier, and one for each target that none could be trained for."""
        targets = {target.name: target for target in self.targets}
        rows = [_row(targets[entry.target], entry) for entry in self.entries]
        return rows + [_row(target, None) for target in self.targets if target.note]

    def summary(self) -> str:
        """One line: what all, and what the passive latents predict, beside the guesses."""
        parts = []
        for name in (MEAN, SAMPLED):
            passive = self.average(name, PASSIVE)
            beside = "" if passive is None else f" (passive latents {passive:.3g})"
            parts.append(f"{self.average(name):.3g} from the {name} codes{beside}")
        left_out = sum(bool(target.note) for target in self.targets)
        omitted = f"; {left_out} of {len(self.targets)} targets could not be predicted" if left_out else ""
        guesses = f"uniform guess {self.guess():.3g}, majority guess {self.guess('majority'):.3g}"
        return f"Accuracy of a logistic regression: {', '.join(parts)}; {guesses}{omitted}."


def _row(target: Target, entry: Accuracy | None) -> dict[str, Any]:
    return {
        "target": target.name,
        "representation": entry.representation if entry else None,
        "combination": entry.combination if entry else None,
        "latents": len(entry.latents) if entry else None,
        "accuracy": entry.accuracy if entry else None,
        "uniform": target.uniform,
        "majority": target.majority,
        "classes": target.classes,
        "strength": entry.strength if entry else None,
        "note": entry.note if entry else target.note,
    }


def downstream(
    codes: Any,
    types: Any,
    targets: Any = None,
    *,
    names: Sequence[str] | None = None,
    protocol: str = "fast",
    seed: int = 0,
    train_items: int = 10_000,
    test_items: int = 5_000,
) -> Downstream:
    """Train a classifier for each target, representation and combination of types (section 6.4.1, sanity check).

    With too few items for both, two thirds of them are for training. Latents are scaled to unit variance before
    they are penalised, and folds keep the shares of the classes; the thesis' code did neither.

    Args:
        codes: a Representation, anything with `mean` and `sample`, or a pair of them, items x latents.
        types: 'active', 'mixed' or 'passive' for each latent, or anything that holds them as `types`.
        targets: items x targets, whole numbers from 0; the factors and labels of `codes` unless given.
        names: of the targets.
        protocol: 'fast' has one strength; 'thesis' chooses among 10 by cross-validation in 5 folds.
        seed: decides the split and the folds.
    """
    if protocol not in PROTOCOLS:
        raise unknown_name("protocol", protocol, PROTOCOLS)
    seed = whole_number("seed", seed, 0, 2**32 - 1)
    whole_number("train_items", train_items, 2)
    whole_number("test_items", test_items, 1)
    tables = tables_of(codes)
    items, latents = tables[MEAN].shape
    groups = combinations(types_of(types, latents))
    values, labels = _targets(codes, targets, names, items)
    train, test = _split(items, train_items, test_items, seed)
    least = FOLDS if len(PROTOCOLS[protocol]) > 1 else 2
    described = [_described(name, values[:, place], train, test, least) for place, name in enumerate(labels)]
    kept = [place for place, target in enumerate(described) if not target.note]
    if not kept:
        raise DataError(f"no target can be predicted. {described[0].note}")
    kinds = [(place, name, group) for place in kept for name in tables for group in groups]
    scored: dict[tuple[int, str, tuple[int, ...]], tuple[float, float, str]] = {}
    entries = []
    for place, name, group in track(kinds, "predicting from codes", len(kinds), long=len(kinds) > LONG):
        key = (place, name, groups[group])
        if key not in scored:  # with two types, both together are the full representation
            inputs = tuple(tables[name][part][:, groups[group]].double().cpu().numpy() for part in (train, test))
            scored[key] = _score(inputs, (values[train, place], values[test, place]), PROTOCOLS[protocol], seed)
        entries.append(Accuracy(labels[place], name, group, groups[group], *scored[key]))
    return Downstream(protocol, seed, len(train), len(test), tuple(described), tuple(entries))


def _targets(codes: Any, targets: Any, names: Sequence[str] | None, items: int) -> tuple[np.ndarray, tuple[str, ...]]:
    """Targets as columns of whole numbers, and their names."""
    given = list(_given(codes)) if targets is None else [("target", targets)]
    if not given:
        raise DataError("codes hold neither factors nor labels: pass targets, items x targets, to be predicted.")
    columns, labels = [], []
    for what, values in given:
        table = class_numbers(values, items, "codes", f"{what}s", (1, 2))
        table = table.reshape(items, -1)
        columns.append(table)
        labels += [what] if table.shape[1] == 1 else [f"{what} {place}" for place in range(table.shape[1])]
    labels = labels if names is None else [str(name) for name in names]
    found = sum(table.shape[1] for table in columns)
    if len(labels) != found or len(set(labels)) != found:
        raise DataError(f"names must be one for each of {found} targets, and differ; got {labels}.")
    return np.concatenate(columns, axis=1), tuple(labels)


def _given(codes: Any) -> Iterator[tuple[str, Any]]:
    for what in ("factor", "label"):
        values = getattr(codes, f"{what}s", None)
        if values is not None:
            yield what, values


def _split(items: int, train: int, test: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Places of the training and of the test items."""
    if items < 3:
        raise DataError(f"a training and a test set need at least 3 items, got {items}. Encode more items.")
    if items < train + test:
        train, test = min(train, 2 * items // 3), min(test, items - 2 * items // 3)
    order = counter.permutation(torch.tensor(seed), "downstream", torch.tensor(0), items).numpy()
    return order[:train], order[train : train + test]


def _described(name: str, values: np.ndarray, train: np.ndarray, test: np.ndarray, least: int) -> Target:
    """The target with its guesses, and the reason if it cannot be learned."""
    classes, counts = np.unique(values, return_counts=True)
    in_training = np.array([(values[train] == kind).sum() for kind in classes])
    majority = float((values[test] == classes[in_training.argmax()]).mean())
    note = ""
    rare = int(in_training.argmin())
    if len(classes) < 2:
        note = f"{name} has the one value {classes[0]} for all items: there is nothing to predict."
    elif in_training[rare] < least:
        note = (
            f"{name} must have at least {least} training items of each class, got {in_training[rare]} of class "
            f"{classes[rare]} ({counts[rare]} of {len(values)} items). Encode more items, or merge classes."
        )
    return Target(name, len(classes), 1 / len(classes), majority, note)


def _score(
    inputs: tuple[np.ndarray, ...], answers: tuple[np.ndarray, ...], strengths: tuple[float, ...], seed: int
) -> tuple[float, float, str]:
    """Accuracy on the test items, the strength that was chosen, and whether the fit ended."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(C=strengths[0], max_iter=ITERATIONS))
    name = "logisticregression"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # said in the note instead
        if len(strengths) > 1:
            folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
            search = GridSearchCV(model, {f"{name}__C": list(strengths)}, cv=folds).fit(inputs[0], answers[0])
            model = search.best_estimator_
        else:
            model.fit(inputs[0], answers[0])
    ended = int(np.max(model[-1].n_iter_)) < ITERATIONS
    note = "" if ended else f"The fit had not converged after {ITERATIONS} iterations."
    return float((model.predict(inputs[1]) == answers[1]).mean()), float(model[-1].C), note
