"""A named data set before it is opened: what it holds, where it lies, how to open it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vaescope.data.dataset import Dataset

BUILT_IN = "built in"


@dataclass(frozen=True)
class Source:
    """One line of the list of data sets.

    Attributes:
        summary: what an item shows, in a few words.
        items, shape: size of the set and shape of an item (0 and () where only the files tell).
        factors: names of the generative factors, empty when there are none.
        open: opens the set; keyword options are the set's own.
        locate: where it lies now (`BUILT_IN` or a path), or None when it would have to be fetched.
    """

    name: str
    summary: str
    items: int
    shape: tuple[int, ...]
    factors: tuple[str, ...]
    open: Callable[..., Dataset]
    locate: Callable[[], str | None] = lambda: BUILT_IN
