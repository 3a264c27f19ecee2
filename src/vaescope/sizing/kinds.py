"""The kinds of search by name: in rounds, by interpolation, by bisection."""

from __future__ import annotations

from vaescope.sizing.interpolation import InterpolatedSearch
from vaescope.sizing.search import BisectionSearch, RoundSearch, Search

ROUNDS, INTERPOLATE, BISECTION = "rounds", "interpolate", "bisection"
MAX_WIDTHS = {ROUNDS: 10, INTERPOLATE: 2, BISECTION: 1}  # sizes that one seed asks for at once, at most
MAX_BISECTED_SIZE = 199  # the largest size that Algorithm 8 measures in the thesis, where u = 200


def new_search(kind: str, start: int, threshold: float, width: int, largest: int, near: bool) -> Search:
    """A search of this kind; `near` starts next to an earlier answer. A bisection starts in the middle."""
    if kind == BISECTION:
        return BisectionSearch(threshold, largest)
    if kind == INTERPOLATE:
        return InterpolatedSearch(start, threshold, width, largest, near)
    # An earlier answer is confirmed by two sizes: itself and the next.
    return RoundSearch(start, threshold, max(2, width // 2 + 1) if near else width, largest, near)
