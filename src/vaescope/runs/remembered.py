"""Data that this process trained runs on: found again by their fingerprint for as long as something holds them."""

from __future__ import annotations

from typing import TypeAlias
from weakref import WeakValueDictionary

import numpy as np
from torch import Tensor

from vaescope.data import DataLike, Dataset
from vaescope.data.cells import AnnData
from vaescope.data.items import is_sparse
from vaescope.data.sparse import SparseMatrix

Held: TypeAlias = Dataset | np.ndarray | Tensor | SparseMatrix | AnnData

# Fingerprint, and whether there are labels and factors, which it leaves out.
_KNOWN: WeakValueDictionary[tuple[str, bool, bool], Held] = WeakValueDictionary()


def held(data: DataLike, opened: Dataset) -> Held:
    """What to hold of data: an array itself, so that a change is noticed when it is opened again, else the data set."""
    return data if isinstance(data, np.ndarray | Tensor) or is_sparse(data) else opened


def remember(data: DataLike, opened: Dataset) -> None:
    """Find these data by their fingerprint while they exist."""
    _KNOWN[opened.fingerprint, opened.labels is not None, opened.factor_table is not None] = held(data, opened)


def recall(fingerprint: str) -> list[DataLike]:
    """The data with this fingerprint that this process has; those with labels and factors first."""
    keys = ((fingerprint, labels, factors) for labels in (True, False) for factors in (True, False))
    return [data for key in keys if (data := _KNOWN.get(key)) is not None]
