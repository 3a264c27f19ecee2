"""How many latents a model needs: FONDUE, a search over the gap between mean and sampled representations.

The package is also its main function: `vaescope.fondue(data)` is `vaescope.fondue.estimate.fondue(data)`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from vaescope.fondue.axes import Latents, Strength
from vaescope.fondue.elbow import Elbow, default_sizes, elbow
from vaescope.fondue.estimate import fondue
from vaescope.fondue.gaps import GAPS, Evidence, Gap, Information, IntrinsicDimension, Reading, Trace
from vaescope.fondue.result import Answer, Fondue
from vaescope.fondue.search import (
    LARGEST,
    SearchResult,
    binary_search,
    ladder,
    next_round,
    rounds,
    search,
    search_in_rounds,
)

__all__ = [
    "GAPS",
    "LARGEST",
    "Answer",
    "Elbow",
    "Evidence",
    "Fondue",
    "Gap",
    "Information",
    "IntrinsicDimension",
    "Latents",
    "Reading",
    "SearchResult",
    "Strength",
    "Trace",
    "binary_search",
    "default_sizes",
    "elbow",
    "fondue",
    "ladder",
    "next_round",
    "rounds",
    "search",
    "search_in_rounds",
]


class _Callable(ModuleType):
    """The question people ask is `vaescope.fondue(data)`, and importing a part of a package binds its name to it."""

    def __call__(self, data: Any, **settings: Any) -> Fondue:
        return fondue(data, **settings)


sys.modules[__name__].__class__ = _Callable
