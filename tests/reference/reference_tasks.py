"""Accuracy of classifiers of scikit-learn on a split, item by item."""

from __future__ import annotations

from typing import Any

import numpy as np


def split(items: int, learned: int, tested: int, seed: int) -> tuple[list[int], list[int]]:
    """Indices of the items to learn from and to test on; both shrink in proportion if there are too few."""
    share = min(1.0, items / (learned + tested))
    order = np.random.default_rng(seed).permutation(items).tolist()
    first, both = int(learned * share), int((learned + tested) * share)
    return order[:first], order[first:both]


def accuracy(model: Any, codes: np.ndarray, factor: np.ndarray, learns: list[int], tests: list[int]) -> float:
    """The share of correct predictions."""
    model.fit([codes[item] for item in learns], [int(factor[item]) for item in learns])
    right = 0
    for item in tests:
        right += int(model.predict(codes[item][None])[0] == factor[item])
    return right / len(tests)


def majority(factor: np.ndarray, learns: list[int], tests: list[int]) -> float:
    """The share of test items with the most frequent class of the others."""
    classes = [int(factor[item]) for item in learns]
    commonest = max(sorted(set(classes)), key=classes.count)
    return sum(int(factor[item]) == commonest for item in tests) / len(tests)
