"""Predicting factors from codes, and from how few examples (Locatello et al., 2019; Bonheme, sections 6.4 and 8.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Unpack

import numpy as np
from jaxtyping import Float, Int

from vaescope.checks import whole_number
from vaescope.errors import ConfigurationError, DataError, unknown_name
from vaescope.metrics.inputs import CodesLike, FactorsLike, MetricInputs, standardise
from vaescope.metrics.registry import METRICS
from vaescope.metrics.score import MetricOptions, RawScore, Score, evaluate, inputs_of

# Small trees for every class, about as good as scikit-learn's exact boosting from 10 to 10,000 examples, and tens of
# times faster. Without the penalty rare classes make boosting diverge: .38 instead of .99 correct answers on 10 even
# bins of a Gaussian code. One thread, and histograms by rows, give the same trees on every machine.
LIGHTGBM_SETTINGS = {
    "objective": "multiclass",
    "num_leaves": 8,
    "learning_rate": 0.1,
    "lambda_l2": 1.0,
    "min_data_in_leaf": 1,
    "min_data_in_bin": 1,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "feature_pre_filter": False,
    "verbosity": -1,
}
BOOSTING_ROUNDS = 50
MAX_ITERATIONS = 1000

Codes = Float[np.ndarray, "items latents"]
Classes = Int[np.ndarray, "items"]


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
        codes: A `Representation` or an array, items x latents.
        factors: One column of classes for each factor. Default: those of the `Representation`.
        classifier: "trees" (boosted trees) or "logistic" (logistic regression on standardised latents).
        train_items, test_items: Number of items to learn from and to test on. With fewer items in all, both shrink in
            proportion.
        names, exclude, types, half_samples, scale, seed: See `MetricOptions`.
    """
    _check(classifier, test_items)
    whole_number("train_items", train_items, 2)
    # All items: half-samples may have fewer examples.
    inputs_of(codes, factors, options).require_examples(2)
    measure = partial(_accuracy, classifier=classifier, train_items=train_items, test_items=test_items)
    title = f"{TITLES[classifier]}, {train_items} items to learn from and {test_items} to test on, or in proportion"
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
        codes: A `Representation` or an array, items x latents.
        factors: One column of classes for each factor. Default: those of the `Representation`.
        sizes: Numbers of training items; those above the number of available items are replaced by it.
        few: The size whose accuracy is divided by that of the largest size.
        classifier: "trees" or "logistic", as in `downstream_accuracy`.
        test_items: Number of items to test on.
        names, exclude, types, half_samples, scale, seed: See `MetricOptions`.
    """
    _check(classifier, test_items)
    wanted = sorted({whole_number("every size", size, 1) for size in sizes})
    if few not in wanted[:-1]:
        raise ConfigurationError(f"few must be one of the sizes except the largest, {wanted[:-1]}, got {few!r}.")
    items = len(inputs_of(codes, factors, options))
    present = _sizes(items, wanted, few, test_items)
    capped = "" if present == wanted else f" (of {wanted}: there are {items} items)"
    measure = partial(_efficiency, classifier=classifier, wanted=wanted, few=few, test_items=test_items)
    title = f"{TITLES[classifier]}, {', '.join(map(str, present))} items to learn from{capped}"
    return evaluate("sample_efficiency", title, measure, codes, factors, **options)


def _check(classifier: str, test_items: int) -> None:
    if classifier not in CLASSIFIERS:
        raise unknown_name("classifier", classifier, CLASSIFIERS)
    whole_number("test_items", test_items, 1)


def _sizes(items: int, wanted: list[int], few: int, test_items: int) -> list[int]:
    """The sizes; those above the number of available training items are replaced by it."""
    share = min(1.0, items / (wanted[-1] + test_items))
    most = int(wanted[-1] * share)
    if most <= few or int(test_items * share) < 1:
        raise DataError(
            f"there must be more than {few} items to learn from, besides those to test on; {items} items leave {most}. "
            "Pass more items, or lower few, sizes or test_items."
        )
    return [size for size in wanted if size < most] + [most]


def _accuracy(data: MetricInputs, seed: int, classifier: str, train_items: int, test_items: int) -> RawScore:
    train, test = data.split(train_items, test_items, seed)
    for name, column in zip(data.names, train.classes.T, strict=True):
        if len(np.unique(column)) < 2 or len(test) == 0:
            raise DataError(
                f"there must be items to test on and two classes of {name!r} to learn, got {len(test)} and the "
                f"classes {np.unique(column).tolist()} among {len(train)} items. Pass more items."
            )
    accuracies = _accuracies(train, test, classifier)
    majority = [
        float((true == np.bincount(known).argmax()).mean())
        for known, true in zip(train.classes.T, test.classes.T, strict=True)
    ]
    return RawScore(float(np.mean(accuracies)), {"majority": float(np.mean(majority))}, tuple(accuracies))


def _efficiency(
    data: MetricInputs, seed: int, classifier: str, wanted: list[int], few: int, test_items: int
) -> RawScore:
    sizes = _sizes(len(data), wanted, few, test_items)
    train, test = data.split(wanted[-1], test_items, seed)
    table = np.array([_accuracies(_first(train, size), test, classifier) for size in sizes])
    means = table.mean(1)
    parts = {f"accuracy_{size}": float(mean) for size, mean in zip(sizes, means, strict=True)}
    parts |= {f"share_{size}": float(mean / means[-1]) for size, mean in zip(sizes[:-1], means, strict=False)}
    pairs = zip(table[sizes.index(few)], table[-1], strict=True)
    return RawScore(parts[f"share_{few}"], parts, tuple(float(some / most) if most else None for some, most in pairs))


def _first(data: MetricInputs, size: int) -> MetricInputs:
    return replace(data, codes=data.codes[:size], factors=data.factors[:size], values=data.values[:size])


def _accuracies(train: MetricInputs, test: MetricInputs, classifier: str) -> list[float]:
    """The accuracy for each factor; with one class to learn, that class is predicted."""
    found = []
    for known, true in zip(train.classes.T, test.classes.T, strict=True):
        present, numbers = np.unique(known, return_inverse=True)
        guesses = CLASSIFIERS[classifier](train.codes, numbers, test.codes) if len(present) > 1 else 0
        found.append(float((present[guesses] == true).mean()))
    return found


def _trees(train: Codes, classes: Classes, test: Codes) -> Classes:
    import lightgbm

    settings = {**LIGHTGBM_SETTINGS, "num_class": int(classes.max()) + 1}
    trees = lightgbm.train(settings, lightgbm.Dataset(train, classes, params=settings), BOOSTING_ROUNDS)
    return np.asarray(np.asarray(trees.predict(test, num_threads=1)).argmax(1))


def _logistic(train: Codes, classes: Classes, test: Codes) -> Classes:
    from sklearn.linear_model import LogisticRegression

    train, test = standardise(train, test)
    return np.asarray(LogisticRegression(max_iter=MAX_ITERATIONS).fit(train, classes).predict(test))


CLASSIFIERS: dict[str, Callable[[Codes, Classes, Codes], Classes]] = {"trees": _trees, "logistic": _logistic}
TITLES = {"trees": "boosted trees", "logistic": "logistic regression"}
