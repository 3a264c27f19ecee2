"""How many latents a model needs: FONDUE, a search over the gap between mean and sampled representations."""

from vaescope.fondue.search import (
    LARGEST,
    SearchResult,
    binary_search,
    ladder,
    next_round,
    search,
    search_in_rounds,
)

__all__ = [
    "LARGEST",
    "SearchResult",
    "binary_search",
    "ladder",
    "next_round",
    "search",
    "search_in_rounds",
]
