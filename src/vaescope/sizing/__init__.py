"""How many latents a model needs: FONDUE, a search over the gap between mean and sampled representations."""

from vaescope.sizing.axes import Latents, Strength
from vaescope.sizing.elbow import Elbow, default_sizes, elbow
from vaescope.sizing.estimate import fondue
from vaescope.sizing.gaps import GAPS, Evidence, Gap, Information, IntrinsicDimension, Reading, Trace
from vaescope.sizing.result import Answer, Fondue
from vaescope.sizing.search import (
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
