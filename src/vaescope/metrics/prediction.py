"""Metrics of factors predicted from all latents: DCI, explicitness, downstream accuracy and sample efficiency."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Unpack

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from vaescope.checks import whole_number
from vaescope.codes import CodesLike
from vaescope.errors import ConfigurationError, DataError
from vaescope.metrics.inputs import FactorsLike, MetricInputs, learnable_split, train_test_split
from vaescope.metrics.score import METRICS, MetricOptions, RawScore, Score, evaluate, inputs_of
from vaescope.registry import lookup

CHANCE_AREA = 0.5  # area under the ROC curve of a guess
MAX_ITERATIONS = 1_000  # of logistic regression

# One thread gives the same trees on every machine; more threads do not make such small trees faster, and slow them down
# on busy cores.
SMALL_TREES = {
    "objective": "multiclass",
    "num_leaves": 8,
    "learning_rate": 0.1,
    "min_data_in_leaf": 1,
    "num_threads": 1,
    "deterministic": True,
    "verbosity": -1,
}
# Trees of scikit-learn's default size, without randomness.
DCI_TREES = SMALL_TREES | {"max_depth": 3, "max_bin": 255, "min_sum_hessian_in_leaf": 0.3, "force_col_wise": True}
DCI_ROUNDS = 40
# About as good as scikit-learn's exact boosting from 10 to 10,000 examples, and tens of times faster. Without the
# penalty rare classes make boosting diverge: .38 instead of .99 correct answers on 10 even bins of a Gaussian code.
# Histograms by rows, too, give the same trees on every machine.
TASK_TREES = SMALL_TREES | {"lambda_l2": 1.0, "min_data_in_bin": 1, "force_row_wise": True, "feature_pre_filter": False}
TASK_ROUNDS = 50

Codes = Float[np.ndarray, "items latents"]
Classes = Int[np.ndarray, "items"]
Importances = Float[np.ndarray, "latents"]
# From training codes, their classes (numbered without gaps) and test codes to predictions; trees also take a seed and
# give importances.
Classifier = Callable[[Codes, Classes, Codes], Classes]
Trees = Callable[[Codes, Classes, Codes, int], tuple[Importances, Classes]]


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
        protocol: "dlib" is scikit-learn's GradientBoostingClassifier, as in disentanglement_lib (whose training and
            test sets may share items of a small grid). "fast" is LightGBM with fewer rounds on bins; it ranks
            representations in the same order, but its scores are other numbers: this default is not comparable with
            published tables, nor with "dlib".
        codes, factors, options: As in `evaluate`.
    """
    measure = partial(_dci, trees=lookup(DCI_PROTOCOLS, protocol, "protocol"))
    note = "" if protocol == "dlib" else ", not comparable with published tables"
    return evaluate("dci", f"boosted trees, {protocol} protocol{note}", measure, codes, factors, **options)


@METRICS.register("explicitness", summary="is each class linearly decodable?", source="Ridgeway and Mozer 2018")
def explicitness(codes: CodesLike, factors: FactorsLike = None, **options: Unpack[MetricOptions]) -> Score:
    """The mean area under the ROC curve of each class, predicted by logistic regression from all latents.

    One regression over all classes of a factor, as in disentanglement_lib, learns from 10,000 items and is tested on
    5,000 others; areas are averaged over classes, then over factors. Latents are standardised first, also as in
    disentanglement_lib, so that their scale does not matter. The part `above_chance` is 0 at an area of .5 and 1 at 1;
    `classes_left_out` counts classes without an example in one of the two sets. The arguments are those of `evaluate`.
    """
    return evaluate("explicitness", "logistic regression, area of each class", _explicitness, codes, factors, **options)


@METRICS.register(
    "downstream_accuracy",
    summary="can factors be predicted from codes?",
    source="Locatello et al. 2019; Bonheme, section 8.5",
)
def downstream_accuracy(
    codes: CodesLike,
    factors: FactorsLike = None,
    *,
    classifier: str = "trees",
    train_items: int = 10_000,
    test_items: int = 5_000,
    **options: Unpack[MetricOptions],
) -> Score:
    """The mean over factors of the accuracy with which a classifier predicts a factor from all latents.

    The part `majority` is the accuracy of always guessing the most frequent training class.

    Args:
        classifier: "trees" (boosted trees) or "logistic" (logistic regression on standardised latents).
        train_items, test_items: Number of items to learn from and to test on. With fewer items in all, both shrink in
            proportion.
        codes, factors, options: As in `evaluate`.
    """
    title, classify = lookup(CLASSIFIERS, classifier, "classifier")
    whole_number("test_items", test_items, 1)
    whole_number("train_items", train_items, 2)
    # All items: half-samples may have fewer examples.
    inputs_of(codes, factors, **options).require_examples(2)
    measure = partial(_accuracy, classify=classify, train_items=train_items, test_items=test_items)
    title += f", {train_items} items to learn from and {test_items} to test on, or in proportion"
    return evaluate("downstream_accuracy", title, measure, codes, factors, **options)


@METRICS.register(
    "sample_efficiency",
    summary="can factors be predicted from few examples?",
    source="Locatello et al. 2019; Bonheme, section 8.5",
)
def sample_efficiency(
    codes: CodesLike,
    factors: FactorsLike = None,
    *,
    sizes: Sequence[int] = (10, 100, 1000, 10_000),
    few: int = 100,
    classifier: str = "trees",
    test_items: int = 5_000,
    **options: Unpack[MetricOptions],
) -> Score:
    """Accuracy after learning from few items, divided by the accuracy after learning from many; 1 if few suffice.

    The parts are the accuracy at each size, averaged over factors, and its ratio to the accuracy at the largest size.
    Smaller training sets are subsets of larger ones. With one class in a training set, that class is predicted.

    Args:
        sizes: Numbers of training items; those above the number of available items are replaced by it.
        few: The size whose accuracy is divided by that of the largest size.
        classifier: "trees" or "logistic", as in `downstream_accuracy`.
        test_items: Number of items to test on.
        codes, factors, options: As in `evaluate`.
    """
    title, classify = lookup(CLASSIFIERS, classifier, "classifier")
    whole_number("test_items", test_items, 1)
    wanted = sorted({whole_number("every size", size, 1) for size in sizes})
    if few not in wanted[:-1]:
        raise ConfigurationError(f"few must be one of the sizes except the largest, {wanted[:-1]}, got {few!r}.")
    items = len(inputs_of(codes, factors, **options))
    present = _available_sizes(items, wanted, few, test_items)
    capped = "" if present == wanted else f" (of {wanted}: there are {items} items)"
    measure = partial(_efficiency, classify=classify, wanted=wanted, few=few, test_items=test_items)
    title += f", {', '.join(map(str, present))} items to learn from{capped}"
    return evaluate("sample_efficiency", title, measure, codes, factors, **options)


def concentration(importances: Float[np.ndarray, "rows columns"]) -> float:
    """The mean over rows, weighted by their sums, of 1 - entropy / log columns; 0 if all are 0."""
    sums = importances.sum(1)
    if importances.shape[1] == 1 or not sums.any():
        return 1.0 if sums.any() else 0.0
    shares = importances[sums > 0] / sums[sums > 0, None]
    entropies = -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(1)
    return float((sums[sums > 0] / sums.sum()) @ (1 - entropies / np.log(importances.shape[1])))


def _dci(data: MetricInputs, seed: int, trees: Trees) -> RawScore:
    data.require_several_factors()
    _ = data.classes  # raises an error for a continuous factor
    train, test = train_test_split(data, seed)

    def learn(labels: Classes) -> tuple[Importances, Classes]:
        present, numbers = np.unique(labels, return_inverse=True)
        importances, guesses = trees(train.codes, numbers, test.codes, seed)
        return importances, present[guesses]

    # Trees take one thread each, so factors are learned in parallel.
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        found = list(pool.map(learn, train.classes.T))
    raw = np.column_stack([gain for gain, _ in found])
    matrix = raw / np.where(raw.sum(0) > 0, raw.sum(0), 1.0)
    accuracy = [float(np.mean(guess == true)) for (_, guess), true in zip(found, test.classes.T, strict=True)]
    parts = {"completeness": concentration(matrix.T), "informativeness": float(np.mean(accuracy))}
    return RawScore(concentration(matrix), parts, matrix=matrix)


def _explicitness(data: MetricInputs, seed: int) -> RawScore:
    from sklearn.linear_model import LogisticRegression

    _ = data.classes  # raises an error for a continuous factor
    train, test = train_test_split(data, seed)
    train_rows, test_rows = _standardise(train.codes, test.codes)
    areas, left_out = [], 0
    for name, known, true in zip(data.names, train.classes.T, test.classes.T, strict=True):
        usable = [label for label in np.intersect1d(known, true) if not (true == label).all()]
        if not usable:
            raise DataError(f"no class of {name!r} has examples both to learn from and to test on. Pass more items.")
        left_out += len(np.union1d(known, true)) - len(usable)
        model = LogisticRegression(max_iter=MAX_ITERATIONS).fit(train_rows, known)
        probabilities = dict(zip(model.classes_.tolist(), model.predict_proba(test_rows).T, strict=True))
        areas.append(float(np.mean([roc_area(probabilities[label], true == label) for label in usable])))
    area = float(np.mean(areas))
    parts = {"above_chance": (area - CHANCE_AREA) / (1 - CHANCE_AREA), "classes_left_out": float(left_out)}
    return RawScore(area, parts, tuple(areas))


def roc_area(scores: Float[np.ndarray, "test"], positive: Bool[np.ndarray, "test"]) -> float:
    """The share of pairs of a positive and a negative that the scores order correctly; equal scores count half."""
    from scipy.stats import rankdata

    count = int(positive.sum())
    above = rankdata(scores)[positive].sum() - count * (count + 1) / 2
    return float(above / (count * (len(positive) - count)))


def _accuracy(data: MetricInputs, seed: int, classify: Classifier, train_items: int, test_items: int) -> RawScore:
    _ = data.classes  # raises an error for a continuous factor
    train, test = learnable_split(data, train_items, test_items, seed)
    accuracies = _accuracies(train, test, classify)
    majority = [
        float((true == np.bincount(known).argmax()).mean())
        for known, true in zip(train.classes.T, test.classes.T, strict=True)
    ]
    return RawScore(float(np.mean(accuracies)), {"majority": float(np.mean(majority))}, tuple(accuracies))


def _available_sizes(items: int, wanted: list[int], few: int, test_items: int) -> list[int]:
    """The sizes; those above the number of available training items are replaced by it."""
    share = min(1.0, items / (wanted[-1] + test_items))
    most = int(wanted[-1] * share)
    if most <= few or int(test_items * share) < 1:
        raise DataError(
            f"there must be more than {few} items to learn from, besides those to test on; {items} items leave {most}. "
            "Pass more items, or lower few, sizes or test_items."
        )
    return [size for size in wanted if size < most] + [most]


def _efficiency(
    data: MetricInputs,
    seed: int,
    classify: Classifier,
    wanted: list[int],
    few: int,
    test_items: int,
) -> RawScore:
    sizes = _available_sizes(len(data), wanted, few, test_items)
    train, test = data.split(wanted[-1], test_items, seed)
    table = np.array([_accuracies(train.part(slice(size)), test, classify) for size in sizes])
    means = table.mean(1)
    parts = {f"accuracy_{size}": float(mean) for size, mean in zip(sizes, means, strict=True)}
    parts |= {f"share_{size}": float(mean / means[-1]) for size, mean in zip(sizes[:-1], means, strict=False)}
    pairs = zip(table[sizes.index(few)], table[-1], strict=True)
    return RawScore(parts[f"share_{few}"], parts, tuple(float(some / most) if most else None for some, most in pairs))


def _accuracies(train: MetricInputs, test: MetricInputs, classify: Classifier) -> list[float]:
    """The accuracy for each factor; with one class to learn, that class is predicted."""
    found = []
    for known, true in zip(train.classes.T, test.classes.T, strict=True):
        present, numbers = np.unique(known, return_inverse=True)
        guesses = classify(train.codes, numbers, test.codes) if len(present) > 1 else 0
        found.append(float((present[guesses] == true).mean()))
    return found


def _standardise(train: Codes, test: Codes) -> tuple[Codes, Codes]:
    """Standardise by the mean and standard deviation of the training items; constant columns are only centred."""
    mean, spread = train.mean(0), train.std(0)
    spread = np.where(spread > 0, spread, 1.0)
    return (train - mean) / spread, (test - mean) / spread


def _boosted(
    train: Codes, classes: Classes, test: Codes, seed: int, *, settings: Mapping[str, object], rounds: int
) -> tuple[Importances, Classes]:
    """The importances and predictions of LightGBM; nothing is drawn."""
    import lightgbm

    options = {**settings, "num_class": int(classes.max()) + 1}
    model = lightgbm.train(options, lightgbm.Dataset(train, classes, params=options), rounds)
    return model.feature_importance("gain"), np.asarray(model.predict(test, num_threads=1)).argmax(1)


def _sklearn_trees(train: Codes, classes: Classes, test: Codes, seed: int) -> tuple[Importances, Classes]:
    from sklearn.ensemble import GradientBoostingClassifier

    model = GradientBoostingClassifier(random_state=seed % 2**32).fit(train, classes)  # it takes seeds of 32 bits
    return model.feature_importances_, model.predict(test)


def _trees(train: Codes, classes: Classes, test: Codes) -> Classes:
    return _boosted(train, classes, test, 0, settings=TASK_TREES, rounds=TASK_ROUNDS)[1]


def _logistic(train: Codes, classes: Classes, test: Codes) -> Classes:
    from sklearn.linear_model import LogisticRegression

    train, test = _standardise(train, test)
    return np.asarray(LogisticRegression(max_iter=MAX_ITERATIONS).fit(train, classes).predict(test))


DCI_PROTOCOLS: dict[str, Trees] = {
    "fast": partial(_boosted, settings=DCI_TREES, rounds=DCI_ROUNDS),
    "dlib": _sklearn_trees,
}
CLASSIFIERS: dict[str, tuple[str, Classifier]] = {
    "trees": ("boosted trees", _trees),
    "logistic": ("logistic regression", _logistic),
}
