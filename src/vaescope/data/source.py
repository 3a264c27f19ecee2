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
        items, shape: size of the set and shape of an item, when opened without options.
        factors: names of the generative factors, empty when there are none or only an optional file holds them.
        open: opens the set; keyword options are the set's own.
        locate: where it lies now (`BUILT_IN`, a path, or what it still needs), or None when it must be fetched.
    """

    name: str
    summary: str
    items: int
    shape: tuple[int, ...]
    factors: tuple[str, ...]
    open: Callable[..., Dataset]
    locate: Callable[[], str | None] = lambda: BUILT_IN
