"""The 8x8 handwritten digits that come with scikit-learn (Alpaydin and Kaynak, 1998)."""

from __future__ import annotations

import importlib.util

import numpy as np

from vaescope.data.arrays import ArrayDataset, from_array
from vaescope.data.source import BUILT_IN, Source
from vaescope.errors import DataError

LEVELS = 16


def open_digits() -> ArrayDataset:
    """1797 grey images with their digit as label; the 17 grey levels 0..16 are spread over 0..255."""
    if locate_digits() is None:
        raise DataError("digits: the images come with the package scikit-learn, which is not installed. Install it.")
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pixels = np.rint(bunch.images * (255 / LEVELS)).astype(np.uint8)
    return from_array(pixels[:, None], "digits", labels=bunch.target)


def locate_digits() -> str | None:
    """They are at hand when the package that brings them is installed."""
    return None if importlib.util.find_spec("sklearn") is None else BUILT_IN


SOURCES = (Source("digits", "small handwritten digits, offline", 1797, (1, 8, 8), (), open_digits, locate_digits),)
