"""The 8 x 8 handwritten digits that scikit-learn ships (Alpaydin and Kaynak, 1998)."""

from __future__ import annotations

import importlib.util

import numpy as np

from vaescope.data.arrays import ArrayDataset, from_array
from vaescope.data.entry import BUILT_IN
from vaescope.errors import DataError

GREY_LEVELS = 16


def open_digits() -> ArrayDataset:
    """1797 grey images, labelled by digit; their grey levels 0..16 are scaled to 0..255."""
    if locate_digits() is None:
        raise DataError("digits needs the package scikit-learn, which is not installed. Install it.")
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pixels = np.rint(bunch.images * (255 / GREY_LEVELS)).astype(np.uint8)
    return from_array(pixels[:, None], "digits", labels=bunch.target)


def locate_digits() -> str | None:
    """`BUILT_IN` if scikit-learn is installed."""
    return None if importlib.util.find_spec("sklearn") is None else BUILT_IN
