"""An entry of the list of named data sets: what a set contains, where it comes from, how to open it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vaescope.data.dataset import Dataset

BUILT_IN = "built in"


@dataclass(frozen=True)
class DatasetEntry:
    """A data set that `open_dataset` knows by name.

    Attributes:
        summary: What an item shows, in a few words.
        source: The publication that introduced the data set.
        items, shape: The number of items and the shape of an item, opened without options.
        factors: Names of the generative factors; empty if there are none or if an optional file contains them.
        open: Opens the data set; its keyword arguments are the options of `open_dataset`.
        locate: Where the data are now: `BUILT_IN` (with what else is needed) or a path; None if they are missing.
        how_to_get: How to get the data if they are missing.
    """

    name: str
    summary: str
    source: str
    items: int
    shape: tuple[int, ...]
    factors: tuple[str, ...]
    open: Callable[..., Dataset]
    locate: Callable[[], str | None] = lambda: BUILT_IN
    how_to_get: str = ""
