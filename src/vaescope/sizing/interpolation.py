"""A search on lines through measured gaps: few sizes are measured where the gap is smooth.

The trace gap is n - determined(n), where determined(n) is the number of well-determined latents (MacKay, 1992; Bonheme,
section 8.3). A line through determined(n) meets n - threshold where the line through the gaps meets the threshold, so
that one rule serves every gap.
"""

from __future__ import annotations

import math

from vaescope.checks import whole_number
from vaescope.sizing.search import Search, checked_limits, next_round

MAX_LINES = 4  # a smooth gap is found by two or three lines; even steps find any other sooner


class InterpolatedSearch(Search):
    """Two sizes, then the two neighbours where the line through their gaps meets the threshold, and so on.

    The first sizes are `start` and one a third above, or the next one with `near`. The line is that through the ends of
    the bracket, or through the two nearest sizes while an end is missing. A round is that of a `RoundSearch` of `width`
    where no line helps: it does not rise or meets the threshold beyond the double, the gap is within the threshold
    again above its first crossing, or `MAX_LINES` lines have not found the crossing.
    """

    def __init__(
        self, start: int, threshold: float = 1.0, width: int = 2, largest: int | None = None, near: bool = False
    ) -> None:
        largest, threshold = checked_limits(start, threshold, largest)
        self.width = whole_number("width", width, 1)
        self._lines, first = 0, int(start)
        second = first + (1 if near else max(1, first // 3))
        super().__init__(tuple(sorted({first, min(second, largest)})), threshold, largest, start=first)

    def _next_sizes(self) -> tuple[int, ...]:
        usable = self._lines < MAX_LINES and not self.result.contradictions
        if usable and (neighbours := self._neighbours_on_line()):
            self._lines += 1
            return neighbours
        return next_round(self._lower, self._upper, self.width, self.largest)

    def _neighbours_on_line(self) -> tuple[int, ...]:
        """The sizes inside the bracket next to where the line meets the threshold; none if the line does not help."""
        lower, upper, meets = self._lower, self._upper, self._crossing_of_line()
        is_open = upper == math.inf
        if is_open:
            upper = min(2 * lower, self.largest) + 1
        if meets is None or (is_open and meets >= upper):
            return ()
        size = math.floor(min(max(meets, lower), upper - 1))
        return tuple(one for one in (size, size + 1) if lower < one < upper)
