"""Predicting factors from codes, and from how few examples (Locatello et al., 2019; Bonheme, sections 6.4 and 8.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import numpy as np
from jaxtyping import Float, Int

from vaescope.checks import whole_number
from vaescope.errors import ConfigurationError, DataError, unknown_name
from vaescope.metrics.inputs import Labelled, labelled
from vaescope.metrics.score import Common, Measured, Score, evaluate

# Small trees for every class, about as good as scikit-learn's exact boosting from 10 to 10,000 examples, and tens of
# times as fast. Without the penalty rare classes make boosting diverge: .38 instead of .99 right answers on 10 even
# bins of a Gaussian code. One thread, and histograms by rows, give the same trees on every machine.
TREES = {
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
ROUNDS = 50
ITERATIONS = 1000


def downstream_accuracy(
    codes: Any,
    factors: Any = None,
    *,
    classifier: str = "trees",
    learned: int = 10_000,
    tested: int = 5_000,
    **common: Unpack[Common],
) -> Score:
    """The mean over factors of the share of test items whose class a classifier on the codes gets right.

    `classifier` is 'trees', boosted ones (chapter 8), or 'logistic', a logistic regression on latents of unit variance
    (chapter 6). With fewer items than `learned` and `tested`, both shrink alike. `majority` is the accuracy of always
    guessing the commonest class of those learned from.
    """
    _check(classifier, tested)
    whole_number("learned", learned, 2)
    _data(codes, factors, common).require_examples(2)
    measure = partial(_accuracy, classifier=classifier, learned=learned, tested=tested)
    title = f"{NAMES[classifier]}, {learned} items to learn from, {tested} to test on, or fewer in these shares"
    return evaluate("downstream_accuracy", title, measure, codes, factors, **common)


def sample_efficiency(
    codes: Any,
    factors: Any = None,
    *,
    sizes: Sequence[int] = (10, 100, 1000, 10_000),
    few: int = 100,
    classifier: str = "trees",
    tested: int = 5_000,
    **common: Unpack[Common],
) -> Score:
    """Accuracy after learning from `few` items over that after the largest of `sizes`; 1 where few are enough.

    The parts are the accuracy at each size, averaged over factors, and its share of the accuracy at the largest. Where
    items are few, sizes end at how many there are to learn from. Smaller sets are parts of the larger ones; a factor
    with one value in all items of a set is guessed to have that value.
    """
    _check(classifier, tested)
    wanted = sorted({whole_number("every size", size, 1) for size in sizes})
    if few not in wanted[:-1]:
        raise ConfigurationError(f"few must be one of the sizes but the largest, {wanted[:-1]}, got {few!r}.")
    data = _data(codes, factors, common)
    present = _sizes(len(data), wanted, few, tested)
    capped = "" if present == wanted else f" (of {wanted}: there are {len(data)} items)"
    measure = partial(_efficiency, classifier=classifier, wanted=wanted, few=few, tested=tested)
    title = f"{NAMES[classifier]}, {', '.join(map(str, present))} items to learn from{capped}"
    return evaluate("sample_efficiency", title, measure, codes, factors, **common)


def _check(classifier: str, tested: int) -> None:
    if classifier not in CLASSIFIERS:
        raise unknown_name("classifier", classifier, CLASSIFIERS)
    whole_number("tested", tested, 1)


def _data(codes: Any, factors: Any, common: Common) -> Labelled:
    """The items as the metric will see them: what is asked of all items cannot be asked of halves of them."""
    return labelled(codes, factors, names=common.get("names"), exclude=common.get("exclude"), types=common.get("types"))


def _sizes(items: int, wanted: list[int], few: int, tested: int) -> list[int]:
    """The sizes, those above the number of items to learn from replaced by it."""
    share = min(1.0, items / (wanted[-1] + tested))
    most = int(wanted[-1] * share)
    if most <= few or int(tested * share) < 1:
        raise DataError(
            f"to compare learning from {few} items with learning from more, more must be left beside those to test on; "
            f"of {items} items {most} are. Pass more items, or lower few, sizes or tested."
        )
    return [size for size in wanted if size < most] + [most]


def _accuracy(data: Labelled, seed: int, classifier: str, learned: int, tested: int) -> Measured:
    first, second = data.split(learned, tested, seed)
    for name, column in zip(data.names, first.classes.T, strict=True):
        if len(np.unique(column)) < 2 or len(second) == 0:
            raise DataError(
                f"there must be items to test on and two classes of {name!r} to learn, got {len(second)} and the "
                f"classes {np.unique(column).tolist()} among {len(first)} items. Pass more items."
            )
    accuracies = _accuracies(first, second, classifier)
    majority = [
        float((tests == np.bincount(learns).argmax()).mean())
        for learns, tests in zip(first.classes.T, second.classes.T, strict=True)
    ]
    return Measured(float(np.mean(accuracies)), {"majority": float(np.mean(majority))}, tuple(accuracies))


def _efficiency(data: Labelled, seed: int, classifier: str, wanted: list[int], few: int, tested: int) -> Measured:
    sizes = _sizes(len(data), wanted, few, tested)
    learning, testing = data.split(wanted[-1], tested, seed)
    table = np.array([_accuracies(_first(learning, size), testing, classifier) for size in sizes])
    means = table.mean(1)
    parts = {f"accuracy_{size}": float(mean) for size, mean in zip(sizes, means, strict=True)}
    parts |= {f"share_{size}": float(mean / means[-1]) for size, mean in zip(sizes[:-1], means, strict=False)}
    own = [float(some / most) if most else None for some, most in zip(table[sizes.index(few)], table[-1], strict=True)]
    return Measured(parts[f"share_{few}"], parts, tuple(own))


def _first(data: Labelled, size: int) -> Labelled:
    return replace(data, codes=data.codes[:size], factors=data.factors[:size], values=data.values[:size])


def _accuracies(learning: Labelled, testing: Labelled, classifier: str) -> list[float]:
    """The accuracy for each factor; where there is one class to learn, that class is guessed."""
    found = []
    for learns, tests in zip(learning.classes.T, testing.classes.T, strict=True):
        known, own = np.unique(learns, return_inverse=True)
        guesses = CLASSIFIERS[classifier](learning.codes, own, testing.codes) if len(known) > 1 else 0
        found.append(float((known[guesses] == tests).mean()))
    return found


def _trees(
    learned: Float[np.ndarray, "items latents"],
    classes: Int[np.ndarray, "items"],
    tested: Float[np.ndarray, "others latents"],
) -> Int[np.ndarray, "others"]:
    import lightgbm

    settings = {**TREES, "num_class": int(classes.max()) + 1}
    trees = lightgbm.train(settings, lightgbm.Dataset(learned, classes, params=settings), ROUNDS)
    return np.asarray(trees.predict(tested, num_threads=1)).argmax(1)


def _logistic(
    learned: Float[np.ndarray, "items latents"],
    classes: Int[np.ndarray, "items"],
    tested: Float[np.ndarray, "others latents"],
) -> Int[np.ndarray, "others"]:
    from sklearn.linear_model import LogisticRegression

    mean, spread = learned.mean(0), learned.std(0)
    spread = np.where(spread > 0, spread, 1.0)
    model = LogisticRegression(max_iter=ITERATIONS).fit((learned - mean) / spread, classes)
    return model.predict((tested - mean) / spread)


CLASSIFIERS = {"trees": _trees, "logistic": _logistic}
NAMES = {"trees": "boosted trees", "logistic": "logistic regression"}
